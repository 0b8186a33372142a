"""How the state of nodes is shown to people: tables and sentences, from what `thence status` found."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from thence.core.groups import process_of
from thence.local.probe import NodeProbe
from thence.runtime.status import EdgeStatusReport, MemberStatus, SeparatorStatus, Status, ZonesStatus

COLOURS: Final = {
    "running": "green", "starting": "yellow", "draining": "yellow", "paused": "yellow",
    "up": "green", "me": "dim", "cut": "yellow", "idle": "dim", "left": "dim",
    "joining": "yellow", "returning": "yellow", "leaving": "yellow", "looking for its group": "yellow",
}  # fmt: skip
"""Everything else is red."""


def nodes_table(seen: list[NodeProbe], before: list[NodeProbe], passed_s: float) -> Table:
    """One row per node; with rates, if there is an earlier look to compare with."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("node")
    table.add_column("state")
    for title in ("up for", "links", "sent", "delivered", "inbox", "held", "unstable", "most lag", "log"):
        table.add_column(title, justify="right", no_wrap=True)
    earlier = {node.name: node.status for node in before if node.status is not None}
    for node in seen:
        head = (Text(node.name, "bold"), coloured(node.state))
        if node.status is None:
            table.add_row(*head, *[Text("–", "dim")] * 9)
        else:
            table.add_row(*head, *_cells(node.status, earlier.get(node.name), passed_s))
    return table


def _cells(status: Status, before: Status | None, passed_s: float) -> Iterable[Text]:
    peers = [member for member in status.members if member.link != "me"]
    up = sum(member.link == "up" for member in peers)
    wanted = sum(member.link != "idle" for member in peers)
    lagging = max(peers, key=lambda member: member.lag, default=None)
    same_run = before if before is not None and before.pid == status.pid and passed_s > 0 else None
    yield Text(duration(status.uptime_s))
    yield Text(f"{up}/{wanted}", "" if up == wanted else "red")
    yield _total(status.sent, same_run.sent if same_run else None, passed_s)
    yield _total(status.delivered, same_run.delivered if same_run else None, passed_s)
    yield Text(f"{status.inbox:,}")
    yield Text(f"{status.held:,}")
    yield Text(f"{status.unstable:,}")
    yield Text(f"{lagging.lag:,} {lagging.name}" if lagging is not None and lagging.lag else "0")
    yield Text(size(status.log.bytes), "red" if status.log.trouble else "")


def _total(now: int, before: int | None, passed_s: float) -> Text:
    if before is None:
        return Text(f"{now:,}")
    return Text.assemble(f"{now:,} ", (f"{max(0, now - before) / passed_s:,.0f}/s", "cyan"))


def links_table(status: Status) -> Table:
    """The members as one node sees them."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("member")
    table.add_column("address")
    table.add_column("link")
    for title in ("for", "lag", "queued", "reconnects", "cut off"):
        table.add_column(title, justify="right")
    for member in status.members:
        table.add_row(Text(_called(member), "bold"), Text(member.address or "–"), *_link(member))
    return table


def _called(member: MemberStatus) -> str:
    """The incarnation that it runs, and what else it may be."""
    name = member.incarnation or member.name
    return name if member.role == "member" else f"{name} ({member.role})"


def _link(member: MemberStatus) -> Iterable[Text]:
    yield coloured(member.link) if not member.branch else Text(f"{member.link}, {member.branch}", "green")
    if member.link == "me":
        return
    yield Text(duration(member.since_s))
    yield Text(f"{member.lag:,}")
    yield Text(size(member.queued_bytes))
    yield Text(f"{member.reconnects:,}")
    yield Text(f"{member.cut_offs:,}", "red" if member.cut_offs else "")


def held_back(seen: list[NodeProbe]) -> list[tuple[str, float, list[str]]]:
    """Processes that hold stability back, since when at least, and the nodes that say so; longest first."""
    found: dict[str, tuple[float, list[str]]] = {}
    for node in seen:
        if node.status is not None and node.status.oldest_unstable_s is not None:
            for name in node.status.holding_stability_back:
                since_s, witnesses = found.get(name, (0.0, []))
                found[name] = max(since_s, node.status.oldest_unstable_s), [*witnesses, node.name]
    return sorted(((name, *told) for name, told in found.items()), key=lambda one: (-one[1], one[0]))


def notes(seen: list[NodeProbe]) -> Iterable[Text]:
    """What the tables do not say."""
    answering = [node.status for node in seen if node.status is not None]
    if answering:
        yield Text()
        yield from _stability(seen, sum(status.unstable for status in answering))
        yield from _trees(answering)
        yield from edge_tree(answering)
        yield from zones(answering)
    yield from _views(answering)
    for status in answering:
        yield from _faults(status)
        for warning in status.warnings:
            yield Text(f"{status.name} has {warning}", "red")
    for node in seen:
        if node.why:
            colour = COLOURS.get(node.state, "red") if node.status is None else "red"
            yield Text.assemble((f"{node.name}: ", "bold"), (node.why, colour))


def _stability(seen: list[NodeProbe], unstable: int) -> Iterable[Text]:
    if all(node.status is None or node.status.edge or node.status.zones for node in seen):
        return  # nothing is told as stable there
    holding = held_back(seen)
    for name, since_s, witnesses in holding:
        yield Text.assemble(
            "stability is held back by ", (name, "bold yellow"),
            f": the oldest message has waited for {duration(since_s)} (says {', '.join(witnesses)})",
        )  # fmt: skip
    if not unstable:
        all_answer = all(node.status is not None or node.well for node in seen)
        yield Text("everything is stable" + ("" if all_answer else " where a node answers"), "green")
    elif not holding:
        yield Text(f"{unstable:,} deliveries are not stable yet, no member in particular holds them back")


def _views(answering: list[Status]) -> Iterable[Text]:
    """Of changing groups: what is going on, and whether all see the same members."""
    views: dict[tuple[str, ...], list[str]] = {}
    for status in answering:
        group = status.group
        if group is None:
            continue
        if group.view:
            views.setdefault(tuple(group.view), []).append(status.name)
        told = {
            "waits:": group.waiting_for if not group.view else [],
            "has not heard from all members that they go on without": group.suspects,
            "waits until all members know of the leave of": group.departing,
            "is to send again, from before its return,": [f"{group.orphans:,} messages"]
            * bool(group.orphans),
            "has a program that is to read what it missed,": [f"{group.unread:,} messages"]
            * bool(group.unread),
            "waits to settle what was sent last by": group.unsettled,
            "holds back behind them": [f"{group.waiting_broadcasts:,} broadcasts"]
            * bool(group.waiting_broadcasts),
        }
        for what, names in told.items():
            if names:
                yield Text(f"{status.name} {what} {', '.join(names)}", "yellow")
    if len(views) > 1:
        for view, who in sorted(views.items()):
            yield Text(
                f"members as {', '.join(who)} see{'s' * (len(who) == 1)} them: {', '.join(view)}", "yellow"
            )


def _trees(answering: list[Status]) -> Iterable[Text]:
    roots = Counter(status.root for status in answering if status.root)
    if len(roots) == 1:
        yield Text(f"one tree, root {next(iter(roots))}")
    elif roots:
        told = ", ".join(f"{root} ({count} nodes)" for root, count in sorted(roots.items()))
        yield Text(f"several roots, which do not hear each other: {told}", "yellow")


def edge_tree(answering: list[Status]) -> Iterable[Text]:
    """Nodes of an edge tree below their parents, with the chains that they may attach to."""
    reports = {status.edge.identity: status.edge for status in answering if status.edge is not None}
    below: dict[str, list[str]] = {}
    for who, report in sorted(reports.items()):
        below.setdefault(report.parent if report.parent in reports else "", []).append(who)
    rows = [(who, 0) for who in reversed(below.get("", []))]
    while rows:
        who, depth = rows.pop()
        yield _edge_row(reports[who], depth, reports.keys())
        rows += [(child, depth + 1) for child in reversed(below.get(who, []))]


def _edge_row(report: EdgeStatusReport, depth: int, running: Collection[str]) -> Text:
    row = Text.assemble("  " * depth, (process_of(report.identity), "bold"))
    if report.groups:
        row.append(f" [{', '.join(report.groups)}]")
    if report.chain:
        # An identity that does not run is spelled out: its process may be another one by now.
        chain = [process_of(who) if who in running else who for who in report.chain]
        row.append(f" may attach to {', '.join(chain)}", "dim")
    for told in _edge_trouble(report):
        row.append(f"; {told}", "yellow")
    return row


def _edge_trouble(report: EdgeStatusReport) -> Iterable[str]:
    if report.obstacle:
        yield f"its parent does not answer: {report.obstacle}"
    if not report.parent and report.identity != report.root:
        yield f"without a parent for {duration(report.without_parent_s)}"
    if report.alone:
        yield "its subtree goes on alone"
    if report.bypassed:
        yield f"{', '.join(report.bypassed)} is passed by"
    if report.joining:
        yield f"joins {', '.join(report.joining)}"
    if report.not_at_root:
        yield f"the root may lack {report.not_at_root:,}"
    for child in report.children:
        if child.syncing:
            yield f"{process_of(child.name)} waits for a state"
        if child.gated:
            yield f"the gate holds {child.gated:,} back for {process_of(child.name)}"


def zones(answering: list[Status]) -> Iterable[Text]:
    """Zones with their members, and who routes between them, as those that answer say."""
    reports = {status.name: status.zones for status in answering if status.zones is not None}
    members: dict[str, list[str]] = {}
    separators: dict[tuple[str, ...], SeparatorStatus] = {}
    gone: dict[tuple[str, ...], set[str]] = {}
    for name, report in sorted(reports.items()):
        if not report.gateway:
            members.setdefault(report.zones[0], []).append(name)
        for one in report.separators:
            separators[tuple(one.zones)] = one
            gone.setdefault(tuple(one.zones), set()).update(one.gone)
    for zone, names in sorted(members.items()):
        yield Text.assemble("zone ", (zone, "bold"), f": {', '.join(names)}")
    for between, separator in sorted(separators.items()):
        told = [_gateway(name, reports.get(name), name in gone[between]) for name in separator.members]
        yield Text.assemble((" – ".join(between), "bold"), f": {', '.join(told)}")
    for name, report in sorted(reports.items()):
        for trouble in _zones_trouble(report):
            yield Text(f"{name} {trouble}", "yellow")


def _gateway(name: str, report: ZonesStatus | None, gone: bool) -> str:
    if gone:
        return f"{name} is gone for good"
    if report is None:
        return f"{name} does not answer"
    return f"{name} forwards" if report.active else f"{name} is a witness"


def _zones_trouble(report: ZonesStatus) -> Iterable[str]:
    if report.silent:
        yield f"waits to hear from {', '.join(report.silent)} what they have of it"
    if report.flushing:
        yield f"waits for what others have of {', '.join(report.flushing)}"
    if report.exposed:
        yield "has sent messages that no other process has, and more since"


def _faults(status: Status) -> Iterable[Text]:
    for peer in status.faults.cut:
        yield Text(f"fault: {status.name} has cut its link with {peer}", "yellow")
    for peer, delay_ms in status.faults.slow_ms.items():
        yield Text(f"fault: {status.name} sends to {peer} {delay_ms:g} ms late", "yellow")


def coloured(word: str) -> Text:
    return Text(word, COLOURS.get(word, "red"))


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
