"""The reports for people, as rich tables. Names from the gateway are shown, never interpreted."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .audit import Audit
from .latency import PERCENTILES, LatencyReport
from .load import STATES, GatewayTools
from .terminal import visible
from .verdicts import REASONS, Finding


def of_list(loaded: GatewayTools) -> RenderableType:
    """Agents and their tools."""
    table = Table(title="Gateway tools by agent", title_justify="left")
    table.add_column("agent")
    table.add_column("tool")
    table.add_column("gateway name")
    table.add_column("hints")
    origin = {finding.allowed_name: finding for finding in loaded.findings if finding.exposed}
    for entry in loaded.allocation.agents:
        tools = loaded.for_agent(entry.name)
        for number, tool in enumerate(tools):
            finding = origin[tool.name]
            table.add_row(
                entry.name if number == 0 else "",
                visible(tool.name),
                visible(finding.name),
                "read-only" if finding.annotated else Text("none", style="yellow"),
            )
        if not tools:
            table.add_row(entry.name, Text("none", style="dim"), "", "")
    return table


def of_audit(report: Audit) -> RenderableType:
    """Reachability, every gateway tool with its verdict, every listed tool that is absent."""
    loaded = report.loaded
    style = "green" if loaded.available else "red"
    head = Text.assemble("Gateway: ", (STATES[loaded.state], style))
    if loaded.detail:
        head.append(f" ({visible(loaded.detail)})")
    head.append(f"\nAPI key: {report.authentication}   {report.elapsed_ms:.0f} ms")
    tools = Table(title="Tools of the gateway", title_justify="left")
    for column in ("gateway name", "verdict", "agents or reason"):
        tools.add_column(column)
    for finding in loaded.findings:
        tools.add_row(visible(finding.name), _verdict(finding), _reason(finding))
    parts: list[RenderableType] = [head]
    if loaded.findings:
        parts.append(tools)
    absent = report.as_json()["missing"]
    if absent:
        listed = Table(title="Listed, but not at the gateway", title_justify="left")
        listed.add_column("tool")
        listed.add_column("agents that go without")
        for item in absent:
            listed.add_row(visible(item["name"]), ", ".join(item["agents"]))
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
    table.add_column("tool")
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
