"""The conformance kit: check any provider, built-in or third-party, against a folder of cases.

    from streamkit.testing import check_provider

    def test_acme():
        check_provider("acme", Path(__file__).parent / "cases" / "acme")

Every ``*.json`` file of the folder is a case. Its input is fed in every form (bytes, dicts, chunk objects) and in
several splits. The turn must be as the case expects, the same each time, and nothing may be raised. The fields, in this
order:

    about            one sentence: what the case shows
    source           the evidence: a URL, a vendor, a thread, or ``docs/rules.md`` with the title of a section
    invented         true if the input was not observed but written for the case
    inputs           a subset of ``bytes``, ``array``, ``lines``, ``dict``; default: all that the wire has
    terminator       false: the bytes end without the wire's terminator; a text: they end with this text instead
    transport_error  the message of the error with which the input ends
    complete         true: the source reports an orderly end, as an SDK's iterator does
    status, headers  of the HTTP response
    turn_key         default ``turn-1``; ``""`` for none
    limits, options  keyword arguments of ``Limits`` and ``Turn``
    chunks           a list of chunks; the bytes are framed as the provider's encoder frames them.
                     ``{"$times": n, "$chunk": {...}}`` stands for n equal chunks
    body             instead of ``chunks``: one JSON document, as a response that is not streamed has it
    expected         the turn, in the form of ``streamkit.testing.case.summary``; what is absent must be empty.
                     Also ``blocks``: the types of the content's blocks; ``ids_made_of`` and ``turn_key``: the raw ids
                     and the turn key behind the canonical ids, if they are not the calls' and the case's

A file of the same name with another suffix (``text.sse`` next to ``text.json``) contains the bytes as recorded. It
replaces ``chunks``, or gives the bytes for them. If ``expected`` is missing, the kit reports the result: compare it
with the rules before you write it down.

The input forms are the bytes as the wire frames them; the same chunks as one JSON array (SSE wires) or as lines of JSON
(binary wires, as recordings are stored); dicts; and, wherever dicts are fed, chunk objects like those of an SDK.

The kit depends on no test runner and no server.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from streamkit import providers
from streamkit.providers.provider import Provider
from streamkit.providers.registry import ProviderName
from streamkit.testing.case import Case, cases_in, every_cut

__all__ = ["Case", "ConformanceError", "Report", "cases_in", "check_case", "check_provider", "every_cut"]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of each case.

    Attributes:
        provider: the provider's name.
        differences: the differences by the case's name; an empty list if the case passed.
    """

    provider: str
    differences: dict[str, list[str]]

    @property
    def failed(self) -> list[str]:
        """The names of the cases that differ."""
        return [case for case, differences in self.differences.items() if differences]

    def __str__(self) -> str:
        lines = [f"{self.provider}: {len(self.failed)} of {len(self.differences)} cases differ"]
        for case in self.failed:
            lines += [f"  {case}", *(f"    {difference}" for difference in self.differences[case])]
        return "\n".join(lines)


class ConformanceError(AssertionError):
    """A provider that differs from its cases. The message lists every difference; ``report`` has them as data."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(str(report))


def check_provider(provider: ProviderName | str | Provider, folder: str | Path) -> Report:
    """Check a provider against all cases of a folder.

    Args:
        provider: its name (registered by ``streamkit.providers.register`` or the entry point group
            ``streamkit.providers``), or the object.
        folder: the folder with the case files.

    Returns:
        The report, in which no case differs.

    Raises:
        ConformanceError: a case differs, or there are no cases.
        UnknownProvider: no provider has this name.
    """
    checked = providers.get(provider)
    report = Report(checked.name, {path.stem: check_case(checked, path) for path in cases_in(folder)})
    for path in sorted(Path(folder).glob("[!._]*")):
        if path.stem not in report.differences:
            report.differences[path.name] = [f"there is no case file {path.stem}.json"]
    if not report.differences:
        report.differences["(all)"] = [f"{Path(folder).name} contains no case (*.json)"]
    if report.failed:
        raise ConformanceError(report)
    return report


def check_case(provider: ProviderName | str | Provider, path: str | Path) -> list[str]:
    """Check a provider against one case, for a test of each case.

    Returns:
        The differences, one line each; empty if the case passed.

    Raises:
        UnknownProvider: no provider has this name.
    """
    case = Case(providers.get(provider), Path(path))
    try:
        return case.problems() or case.differences()
    except (OSError, ValueError, TypeError) as error:
        return [f"the case cannot be read: {type(error).__name__}: {error}"]
