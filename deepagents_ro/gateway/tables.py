"""The reports for people, as rich tables. Names from the gateway are shown, never interpreted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deepagents_ro.terminal import visible

from .auditing import Audit
from .latency import PERCENTILES, LatencyReport
from .load import GatewayTools
from .tool import arguments_of
from .verdicts import REASONS, Finding


def of_list(loaded: GatewayTools) -> RenderableType:
    """Agents and their tools."""
    table = Table(title="Gateway tools by agent", title_justify="left")
    table.add_column("agent", overflow="fold")
    table.add_column("tool", overflow="fold")
    table.add_column("arguments", overflow="fold")
    table.add_column("gateway name", overflow="fold")
    table.add_column("hints")
    origin = {finding.allowed_name: finding for finding in loaded.findings if finding.exposed}
    for entry in loaded.allocation.agents:
        tools = loaded.for_agent(entry.name)
        for number, tool in enumerate(tools):
            finding = origin[tool.name]
            table.add_row(
                entry.name if number == 0 else "",
                visible(tool.name),
                visible(", ".join(arguments_of(tool))),
                visible(finding.name),
                "read-only" if finding.annotated else Text("none", style="yellow"),
            )
        if not tools:
            table.add_row(entry.name, Text("none", style="dim"), "", "", "")
    return table


def of_audit(report: Audit, *, agent: str = "", refused: bool = False) -> RenderableType:
    """The two questions of a reviewer, then every tool with its verdict, and what is absent."""
    loaded = report.loaded
    style = "green" if loaded.available else "red"
    head = Text(visible(report.access()) + "\n" + visible(report.unused()) + "\n")
    head.append_text(Text.assemble("Gateway: ", (loaded.reason, style)))
    if loaded.detail:
        head.append(f" ({visible(loaded.detail)})")
    if report.url:
        head.append(f"\nAsked: {visible(report.url)}")
    key = report.authentication.replace("_", " ")
    head.append(f"\nAPI key: {key}   {report.elapsed_ms:.0f} ms")
    parts: list[RenderableType] = [head]
    findings = report.selected(agent=agent, refused=refused)
    if findings:
        tools = Table(title="Tools of the gateway", title_justify="left")
        for column in ("gateway name", "verdict", "agents or reason"):
            tools.add_column(column, overflow="fold")
        for finding in findings:
            tools.add_row(visible(finding.name), _verdict(finding), _reason(finding))
        parts.append(tools)
    absent = report.absent()
    if absent:
        listed = Table(title="Allocated, but not usable", title_justify="left")
        for column in ("tool", "agents that go without", "why"):
            listed.add_column(column, overflow="fold")
        agents = loaded.allocation.allowed()
        for name, why in absent.items():
            if agent in ("", *agents[name]):
                listed.add_row(visible(name), ", ".join(agents[name]), visible(why))
        parts.append(listed)
    return Group(*parts)


def _verdict(finding: Finding) -> Text:
    if not finding.exposed:
        return Text("left out", style="dim")
    if finding.annotated:
        return Text("exposed", style="green")
    return Text("exposed, no hints", style="yellow")


def _reason(finding: Finding) -> str:
    if finding.exposed:
        return ", ".join(finding.agents)
    detail = f" ({visible(finding.detail)})" if finding.detail else ""
    return REASONS[finding.reason] + detail


def of_latency(report: LatencyReport) -> RenderableType:
    """Percentiles and failures by tool."""
    table = Table(title="Latency in milliseconds", title_justify="left")
    table.add_column("tool", overflow="fold")
    for column in ("calls", "failed", *(f"p{percent}" for percent in PERCENTILES), "max"):
        table.add_column(column, justify="right")
    for sample in report.samples:
        values = [sample.percentile(percent) for percent in PERCENTILES]
        values.append(max(sample.times_ms, default=None))
        table.add_row(
            visible(sample.tool),
            str(len(sample.times_ms) + sample.failures),
            Text(str(sample.failures), style="red" if sample.failures else ""),
            *("-" if value is None else f"{value:.1f}" for value in values),
        )
    parts: list[RenderableType] = [table]
    parts += [
        Text(f"{visible(tool)}: not called, {why}", style="dim")
        for tool, why in report.skipped.items()
    ]
    for sample in report.samples:
        parts += [Text(f"{sample.tool}: {visible(line)}", style="red") for line in sample.errors]
    return Group(*parts)
