"""Tool-call markup that leaks into a model's text: kept, stripped, or recovered as calls.

A model writes its calls as text in its own markup, and the server should turn them into ``tool_calls``. If the server
fails to, the markup reaches the user as text and no tool runs. ``Turn(leaked_markup=...)`` handles it and is off by
default: ``keep`` changes nothing, ``strip`` removes the markup from the text, ``recover`` turns it into calls.

A ``MarkupSink`` wraps the accumulator as the parser's sink; with ``keep`` there is none. ``lexer`` splits the text into
text runs and tags; ``quotation`` finds code and quotations; ``grammars`` parses the tags of each style; ``filter``
buffers, emits and recovers, for the choice whose text it gets; ``sink`` also cleans the names of calls that the wire
did send (harmony's control tokens).

Rules for each family:

* Only text is searched, neither reasoning nor refusals: a model thinks about calls that it does not make.
* Only the tags of the families that the provider's models use are tags (``Traits.markup_families``).
* Markup in code or a quotation (``quotation``) is text, unchanged, with either option and without a warning. Elsewhere
  it is markup only where its grammar matches: a lone ``<tool_call>`` is text.
* Markup of a call of a tool that was not offered is text, unchanged, with the warning ``broken_markup``, if the names
  of the offered tools were passed. It is read to its end all the same: markup in its arguments is no call.
* Ordinary text waits only while it may be the prefix of a tag, ``lexer.LONGEST`` characters at most. Space after a call
  waits until it is clear whether another call follows. Inside markup the text waits until the call is complete, except
  for arguments that are JSON after the name: they are streamed.
* Markup that does not parse is text again, with the warning ``broken_markup``: no text is lost and no call is guessed.
  With ``strip``, only tags that are a model's control tokens are removed, because people do not write these as prose.
* A truncated call is incomplete; a complete call is treated like any call of the client.

What remains a risk: prose that contains a complete call of an offered tool in markup of the model's own family, outside
of code and quotations (copied from a tool's result, or in an indented code block), cannot be distinguished from a call.
Run tools with effects only with approval (``approval="ask"``) while markup is recovered.

It depends on neither wires nor providers.
"""

from streamkit.reading.leaked_markup.sink import LeakedMarkup, MarkupSink

__all__ = ["LeakedMarkup", "MarkupSink"]
