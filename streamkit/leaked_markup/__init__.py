"""Tool-call markup that a badly served model leaks into its text: recovered as calls, taken out, or kept.

A model writes its calls as text of its own; the server should turn them into ``tool_calls``. Where it fails to, they
reach the user as text, and no tool runs. This is an option (``Turn(leaked_markup=...)``), off by default: ``keep``
changes nothing, ``strip`` takes the markup out of the text, ``recover`` makes it the calls it was meant to be.

A ``MarkupSink`` stands between the parser and the accumulator, so that with ``keep`` nothing stands there at all.
``tags.py`` cuts the text into runs and tags; one grammar a file says what the tags mean (``elements.py``: DSML, Kimi
K3; ``tokens.py``: DeepSeek V3, Kimi K2; ``hermes.py``: Hermes, Qwen3-Coder); ``answer.py`` holds back, hands on,
recovers; ``names.py`` mends the names of calls that the wire did send (harmony's control tokens).

What holds, in each family:

* Only the answer's text is looked at: not reasoning, not refusals (a model thinks about calls that it does not make).
* Code fences are not looked at: markup that a fence shows is markup. But it is only where its grammar matches: a lone
  ``<tool_call>`` is text.
* Ordinary text waits only while it may be the beginning of a tag, ``tags.LONGEST`` characters at most; so does the
  space behind a call, until it is plain whether another call follows. Inside markup the text waits until the call is
  whole, except for arguments that stand there as JSON behind the name, which stream as they come.
* Markup that does not parse is text again, with the warning ``broken_markup``: no text is lost, no call is guessed
  at. With ``strip`` only the tags that are control tokens of a model, which nobody writes as prose, are taken out.
* A call that was cut is incomplete; a call that was whole counts as any call of the client's does.

It knows neither wires nor providers: a model's markup leaks from whoever serves it.
"""

from streamkit.leaked_markup.sink import LeakedMarkup, MarkupSink

__all__ = ["LeakedMarkup", "MarkupSink"]
