"""Bugs planted into changing groups, one for each rule that could be forgotten.

The numbers are those of a list of forty-two that any such protocol should be tried against. Two of them do no
harm here and are not planted. 17, messages for another incarnation of the process are taken: whatever a
member of the own side sends is good for any incarnation, since it was delivered there before it flushed any
suspect. 29, leavers are not served: members that stay tell them that they may go, and so do members that
leave at the same time. To these come bugs of how history ends (p), of session links (s), of those who are the
last to leave a side (l), of disks (d), of orphans that no program wants (o), of lies that are believed (i),
of programs that only read (r) and of trees (t).

Each is an edit of one or more modules. Unlike other mutants they are not taken out of their module but put to
work: while one is planted, every module of the project that uses something of the edited ones uses the edited
thing instead.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from support.mutants import Edit, edited, run, sources

MEMBER = "thence.replica.group.member.member"
LEDGER = "thence.replica.group.ledger.ledger"
PEERS = "thence.replica.group.receipts.peers"
NODE = "thence.replica.group.process.node"
RECEIVING = "thence.replica.group.member.receiving"
DELIVERY = "thence.replica.group.member.delivery"
MEMBERSHIP = "thence.replica.group.member.membership"
STABILITY_ = "thence.replica.group.member.stability"
ROWS = "thence.replica.group.member.rows"
SUCCESSION = "thence.replica.group.lifecycle.succession"
DISPATCH = "thence.replica.group.process.dispatch"
PARTING = "thence.replica.group.lifecycle.parting"
LIVES = "thence.replica.group.lifecycle.incarnations"
LINKS = "thence.replica.group.channel.links"
CHANNEL = "thence.replica.group.channel.directions"
BACKLOG = "thence.replica.group.ledger.backlog"
GATE = "thence.replica.group.transfer.admission"
WATCH = "thence.replica.group.receipts.schedule"
ENTRY = "thence.replica.group.lifecycle.joining"
HANDOVER = "thence.replica.group.transfer.handover"
CARRYING = "thence.replica.group.transfer.carrying"
SENDING = "thence.replica.send_queue"
READING_ = "thence.replica.group.transfer.reading"
RETURNING_ = "thence.replica.group.lifecycle.returning"
WANTS = "thence.replica.group.receipts.relays"
SPEAKING = "thence.replica.group.process.speaking"
GRAPH = "thence.order.graph"
VIEW = "thence.members.group"
OPERATIONS = "thence.members.operations"
ATTEMPT = "thence.members.attempt"


@dataclass(frozen=True, slots=True)
class GroupMutant:
    name: str
    found_by: int | str
    """The seed of a short storm, also of one with bad disks, a liar or a tree ("disks 9", "guest 7",
    "traitor 2", "tree 8"), or the name of a schedule."""
    edits: tuple[Edit, ...]


def made(changed: dict[str, str]) -> dict[str, ModuleType]:
    """These modules, and those of the project whose classes inherit from theirs: bases first."""
    depth = dict.fromkeys(changed, 0)
    for name in changed:
        bases = [one for one in vars(importlib.import_module(name)).values() if isinstance(one, type)]
        for heir in heirs([one for one in bases if one.__module__ == name]):
            depth[heir.__module__] = max(depth.get(heir.__module__, 0), len(heir.__mro__))
    real, modules = {name: sys.modules[name] for name in depth}, dict[str, ModuleType]()
    try:
        for name in sorted(depth, key=lambda name: depth[name]):
            sys.modules[name] = modules[name] = run(name, changed.get(name) or sources()[name])
    finally:
        sys.modules.update(real)
    return modules


def heirs(bases: list[type[object]]) -> Iterator[type[object]]:
    for base in bases:
        heir: type[object]
        for heir in base.__subclasses__():
            if heir.__module__ in sources() and not issubclass(heir, Exception):
                yield heir
                yield from heirs([heir])


@contextmanager
def planted(edits: tuple[Edit, ...]) -> Iterator[None]:
    """The project with these edits in it, and with classes of other modules that inherit from edited ones."""
    modules = made(edited(edits))
    replaced: dict[int, object] = {}
    for name, mutated in modules.items():
        original = importlib.import_module(name)
        for key, value in vars(mutated).items():
            if getattr(value, "__module__", "") == mutated.__name__ and key in vars(original):
                replaced[id(vars(original)[key])] = value
    undo: list[tuple[ModuleType, str, object]] = []
    loaded = [module for name, module in sys.modules.items() if name.split(".")[0] in ("thence", "support")]
    for module in [*loaded, *modules.values()]:
        for key, value in list(vars(module).items()):
            if id(value) in replaced:
                undo.append((module, key, value))
                setattr(module, key, replaced[id(value)])
    try:
        yield
    finally:
        for module, key, value in undo:
            setattr(module, key, value)


def of(name: str, found_by: int | str, *edits: Edit) -> GroupMutant:
    return GroupMutant(name, found_by, edits)


PAST_SHOWS_NOTHING = (
    f"{PARTING}:Notices._is_astray", "followed or any(name in past for name in view.suspects)", "followed"
)  # fmt: skip
"""Rule 26 b finds most sides that are apart. A bug in another rule for them shows where it is missing."""

LENDS_NOTHING = (f"{WANTS}:RelayRequests.of_each", " or self._lender(origin)", "")
"""An unknown incarnation that takes a member for one of its own brings it what it lacks (rule 5), and mends
so what some bugs do. They show where it is missing."""


STABILITY = [
    of("1: a receipt counts before its sender's messages came", 1,
       (f"{PEERS}:Peers.settle", "if peer.held and came and", "if peer.held and")),
    of("2: receipts tell of what was received", 1,
       (f"{WATCH}:ReceiptScheduler.about", "        counts, suspects = self._ledger.vector(), tuple",
        "        delivered = [dot >> 20 for dot in self._ledger.orderer._delivered]\n"
        "        everything = dict(zip(self._ledger.names, delivered))\n"
        "        counts, suspects = {n: everything[n] for n in self._ledger.vector()}, tuple")),
    of("3: the row of a suspect is dropped at once", 22,
       (f"{MEMBERSHIP}:Membership.follow", "        for member in changes.left + changes.evicted:\n",
        "        for member in changes.left + changes.evicted + changes.suspected:\n")),
    of("4: stability does not wait for a joiner", 0,
       (f"{MEMBERSHIP}:Membership.follow", "ledger.window.enter(ledger.number(member), dot)",
        "ledger.number(member)")),
    of("5: a joiner is taken to have what this member has", 4,
       (f"{MEMBERSHIP}:Membership.follow", "            ledger.window.enter(ledger.number(member), dot)\n",
        "            ledger.window.enter(ledger.number(member), dot)\n"
        "            ledger.known(member, ledger.vector())\n")),
    of("6: a joiner takes all others to have what it got", 1,
       (f"{HANDOVER}:state_of", "rows = {name: ledger.row(name) for name",
        "rows = {name: ledger.vector() for name")),
    of("7: after a restart all others are taken to have everything", 7,
       (f"{MEMBER}:Member.recovered", "        self._gate.recall(notes)\n",
        "        self._gate.recall(notes)\n"
        "        for member in self.view.view - {self.me}:\n"
        "            ledger.known(member, ledger.vector())\n")),
    of("8: a leaver's row is dropped when its leave is received", 3,
       (f"{RECEIVING}:Receiving.accept", "        ledger.orderer.check(message)\n",
        "        ledger.orderer.check(message)\n"
        "        if message.payload[0] == LEAVE:\n"
        "            ledger.window.drop(origin)\n")),
]  # fmt: skip

CUT = [
    of("9: a suspect is still listened to", 99,
       (f"{RECEIVING}:Receiving.data", "packet.source not in self._view.side:",
        "packet.source not in self._view.view:"),
       (f"{RECEIVING}:Receiving._incoming", "(incoming.lends or incoming.source in self._view.side):",
        "(incoming.lends or incoming.source in self._view.view):"),
       (f"{LINKS}:GroupLinks.opened", "(lends or member in self._view.side):",
        "(lends or member in self._view.view):"),
       (f"{LINKS}:GroupLinks._consider", "receipt.source not in view.side and",
        "receipt.source not in view.view and")),
    of("10: an eviction waits for no flush", 5,
       (f"{VIEW}:GroupView._complete",
        "if not waiting or not all(self.flushed.get(q, set()) >= waiting for q in others):",
        "if not waiting:")),
    of("11: each suspect is settled by itself", "two_suspects",
       (f"{VIEW}:GroupView._complete",
        "        if not waiting or not all(self.flushed.get(q, set()) >= waiting for q in others):\n",
        "        waiting = {x for x in waiting if all(x in self.flushed.get(q, set()) for q in others)}\n"
        "        if not waiting:\n")),
    of("12: a flush counts when it is received", 5,
       (f"{RECEIVING}:Receiving.accept", "        ledger.orderer.check(message)\n",
        "        ledger.orderer.check(message)\n"
        "        if message.payload[0] == FLUSH:\n"
        "            names = payload_flush(message.payload)[0]\n"
        "            changes = self._view.deliver(ledger.names[origin], seq, FLUSH, names, ledger.count)\n"
        "            self._changed(changes, 0, now)\n")),
    of("13: what is pending is kept", 8,
       (f"{MEMBERSHIP}:Membership.follow", "        if changes.suspected or changes.evicted:\n",
        "        if False:\n")),
    of("14: what was not delivered is passed on", 168,
       (f"{PEERS}:Peers.serve",
        "lacking = [name for name, count in names if count > receipt.counts.get(name, 0)]",
        "lacking = [name for name, _ in names]"),
       (f"{PEERS}:Peers._missing", "        good = (\n",
        "        waiting = ledger.orderer._successors.values()\n"
        "        early = {m.dot: m for held in waiting for m in held}\n"
        "        from thence.replica.group.ledger.ledger import CODEC\n"
        "        held = [(d, CODEC.encode(m)) for d, m in early.items()]\n"
        "        held = [(d, data) for d, data in held if ledger.names[d & ORIGIN_MASK] in due]\n"
        "        good = (\n"),
       (f"{PEERS}:Peers._missing", "in (ledger.written(had) if due",
        "in ([*ledger.written(had), *held] if due"),
       (f"{PEERS}:Peers._missing",
        "if dot & ORIGIN_MASK < len(limits) and dot >> ORIGIN_BITS <= limits[dot & ORIGIN_MASK]", "if dot")),
    of("15: a leaver passes on what came after its leave", "leaver_and_suspect",
       (f"{PEERS}:Peers.serve", "limits = self._ledger.counts if self.upto is None else self.upto",
        "limits = self._ledger.counts"),
       (f"{LINKS}:GroupLinks._relay", "self._ledger.counts if self.upto is None else self.upto",
        "self._ledger.counts"),
       (f"{LINKS}:GroupLinks.forward", "self.upto is None and ", "")),
    of("16: a restart forgets suspects", "restart_while_evicting",
       (f"{LIVES}:Incarnations.recover", "            member.recovered(seen, log.stable, log.notes, now)\n",
        "            member.recovered(seen, log.stable, log.notes, now)\n"
        "            member.view.suspects.intersection_update(member.view.gone)\n")),
    of("18: a joiner is not bound to its contact", 41,
       (f"{ENTRY}:JoinAttempt.give_up", "            self.begin(old.outside, old.since > 0, now)\n",
        "            self.begin(old.outside, old.since > 0, now)\n"
        "            self.attempt.joiner = old.joiner\n"),
       (f"{GATE}:Contact.admit",
        "        elif joiner not in self._view.side or not self._sender.waits_for(joiner):\n"
        "            return\n",
        "        elif joiner not in self._view.side:\n            return\n"
        "        if not self._sender.waits_for(joiner):\n            self._sender.opened(joiner, 0, now)\n")),
]  # fmt: skip

PROGRESS = [
    of("19: only own messages are sent again", 1,
       (f"{PEERS}:Peers.serve",
        "lacking = [name for name, count in names if count > receipt.counts.get(name, 0)]",
        "lacking = [n for n, count in names if count > receipt.counts.get(n, 0) and n == me]"),
       (f"{LINKS}:GroupLinks._pass_on",
        "        for origin in receipt.wants:\n", "        for origin in ():\n")),
    of("20: messages are taken from their origin only", 1,
       (f"{RECEIVING}:Receiving.data", "            self.accept(self._ledger.message(named), now)\n",
        "            if named.origin == packet.source:\n"
        "                self.accept(self._ledger.message(named), now)\n"),
       (f"{RECEIVING}:Receiving.flow", "            self.accept(message, now)\n",
        "            if self._ledger.place(message.dot)[0] == incoming.source:\n"
        "                self.accept(message, now)\n")),
    of("21: a flush is not joined", 50,
       (f"{VIEW}:GroupView.deliver", "            self._suspect(fresh, changes)\n", "")),
    of("22: a joiner sends no flush", 0,
       (f"{SUCCESSION}:Succession._begin_anew",
        "        member.membership.arrived(now)\n        member.news(now)\n",
        "        member.view.flushed[member.me] = set(member.view.suspects)\n")),
    of("23: a joiner flushes open suspects only", 4,
       (f"{VIEW}:GroupView.unflushed_suspects",
        "return sorted(self.suspects - self", "return sorted(self.open - self")),
    of("24: a joiner forgets suspects", 50,
       (f"{MEMBER}:Member.__init__", "            state.suspects,\n", "            set(),\n")),
    of("25: leavers must flush", 4,
       (f"{VIEW}:GroupView._complete", "others = self.side - {self.me}\n",
        "others = (self.side | self.departing.keys()) - {self.me}\n")),
    of("26: joiners get new messages only", 1,
       (PEERS, "from thence.core.groups import Data, NamedMessage, Receipt\n",
        "from thence.core.groups import Data, NamedMessage, Receipt\n\nFIRST: dict = {}\n"),
       (f"{PEERS}:Peers.serve", "        messages = self._missing(due, receipt.counts, limits)\n",
        "        first = FIRST.setdefault((id(self), receipt.source), self._ledger.vector())\n"
        "        had = {name: max(count, receipt.counts.get(name, 0)) for name, count in first.items()}\n"
        "        messages = self._missing(due, {**receipt.counts, **had}, limits)\n"),
       (f"{LINKS}:GroupLinks._consider", "Outgoing(receipt.stream, receipt.source, has,",
        "Outgoing(receipt.stream, receipt.source, self._ledger.sent,")),
    of("27: a joiner gets no messages that are not stable", 4,
       (f"{LIVES}:Incarnations.beginning", "            log.append(message.dot, CODEC.encode(message))\n",
        "            pass\n")),
    of("28: a restart loses what others may lack", 28,
       (f"{LEDGER}:Ledger", "class Ledger:\n", "class Ledger:\n    lost: dict = {}\n"),
       (f"{LEDGER}:Ledger.written", "for one in stored), fresh)",
        "for one in stored if one.position > self.lost.get(id(self), 0)), fresh)"),
       (f"{LIVES}:Incarnations.recover", "            member.recovered(seen, log.stable, log.notes, now)\n",
        "            member.recovered(seen, log.stable, log.notes, now)\n"
        "            member.ledger.lost[id(member.ledger)] = log.tail\n")),
    of("30: a leaver is let in once more", "very_late_request",
       (f"{GATE}:Contact.admit", "if not self._view.is_superseded(joiner):",
        "if joiner not in self._view.view:"),
       (f"{GATE}:Contact.admit",
        "[each for each in due if not self._view.is_superseded(each.joiner)]", "due"),
       (f"{VIEW}:GroupView._join", "if member in self.gone or member in self.past or",
        "if member in self.gone or")),
    of("29: a joiner gives up while its state comes", "slow_joiner",
       (f"{ENTRY}:JoinAttempt.came", "        attempt.until = now + settings.join_timeout_us\n", "")),
    of("29a: a contact gives up a joiner that asks for more of its state", "slow_joiner",
       (f"{GATE}:StateSender.pieces", "        self.opened(joiner, seq, now)\n", "")),
    of("31: no process is probed", 19,
       (f"{NODE}:GroupNode._probe", "(outside | set(self._entry.seeds)) - inside - {self.name}",
        "set[str]()")),
    of("32: a notice is not answered", "stranger",
       (f"{DISPATCH}:Dispatcher._notice", "        elif todo is Course.ANSWER:\n", "        elif False:\n")),
    of("33: those who return wait for each other", "circle",
       (f"{DISPATCH}:Dispatcher._asked",
        "            if request.rank <= self._notices.rank(member):\n                return\n",
        "            return\n")),
    of("34: no ghosts", 1705,
       (f"{MEMBERSHIP}:Membership.ghosts", "        if dead:\n", "        if False:\n")),
]  # fmt: skip

HISTORY = [
    of("35: dots are used again after a restart", 0,
       (f"{MEMBER}:Member._send", "        data = ledger.write(message)\n        if self._wires.used:\n",
        "        from thence.replica.group.ledger.ledger import CODEC\n"
        "        data = CODEC.encode(message)\n        if self._wires.used:\n")),
    of("36: a member returns as the same incarnation", 0,
       (f"{LIVES}:Incarnations.reserve", "        number = max(self._shelf.highest, self._floor) + 1\n",
        "        number = max(self._shelf.highest, self._floor) + (self.log is None)\n")),
    of("37: a joiner follows from nothing", 0,
       (f"{LEDGER}:Ledger.__init__", "        seen = self.dots(state.context)\n", "        seen = ()\n")),
    of("38: nothing is sent again after a return", 0,
       (f"{RETURNING_}:returning",
        "    state.orphans = yield from _unknown(state, old, forgetful or forked)\n", "")),
    of("39: only own operations are sent again", 13,
       (f"{RETURNING_}:_unknown", "if not (known or place in",
        "if op.origin == old.me and not (known or place in")),
    of("40: an operation takes effect as often as it comes", "disks 4",
       (f"{OPERATIONS}:Operations.was_carried",
        "        if self.applied(operation, count):\n            return False\n", "")),
    of("41: operations that are not ready are skipped", "orphans_in_order",
       (f"{OPERATIONS}:Operations.ready", "                if not may_go(first):\n                    break\n"
        "                found.append(first)\n",
        "                if not may_go(first):\n"
        "                    found += [op for op in self.orphans if may_go(op)]\n"
        "                    found = [op for op in found if not self.applied(op, count)]\n"
        "                    self.orphans = deque([op for op in self.orphans if op not in found])\n"
        "                    break\n                found.append(first)\n")),
    of("42: a joiner does not learn what may have to be sent again", 253,
       (f"{HANDOVER}:state_of", "stable_operations(ledger, operations) if joins", "iter(()) if joins")),
]  # fmt: skip

HISTORY_ENDS = [
    of("p1: who is past is not told", "past_is_told",
       (f"{WATCH}:ReceiptScheduler.about", "running, past=view.past.all", "running")),
    of("p2: an incarnation is past before all have its messages", 99,
       (f"{VIEW}:GroupView.forget", "if stable(origin) >= seq]", "]"),
       (f"{VIEW}:GroupView.forget", "if member in self.closed and stable(member) >= final.last",
        "if member in self.closed")),
    of("p8: who was evicted on a side that is given up is not told of", "let_in_and_given_up",
       (f"{RETURNING_}:_companions", " | {*view.evicted()}", ""), PAST_SHOWS_NOTHING),
    of("p9: of one who is past, more than there is", "past_is_passed_on",
       (f"{PARTING}:Notices.is_due", "gone.last < receipt.counts.get(name, 0) < ALL",
        "gone.last < receipt.counts.get(name, 0)")),
    of("p10: signs of life come too late", "silence_is_no_absence",
       (f"{WATCH}:ReceiptScheduler._over_links", "then - link.said_at > self", "now - link.said_at >= self")),
    of("p3: an incarnation is past before its operations were carried", 0,
       (f"{VIEW}:GroupView.forget", "if member in self.closed and stable", "if stable")),
    of("p7: a returner's companions are not named", "orphans_in_order",
       (f"{CARRYING}:Carrying.came", "self._view.add_strangers(carried.strangers)", "pass")),
    of("p4: carried before everything was", 0,
       (f"{CARRYING}:Carrying.due",
        "if not self.must_announce or self._operations.orphans:", "if not self.must_announce:")),
    of("p5: a past incarnation can be suspected again", 99,
       (f"{VIEW}:GroupView.deliver", "fresh = {member for member in named if member not in self.past}",
        "fresh = set(named)")),
    of("p6: operations are forgotten although a suspect may return", 0,
       (f"{STABILITY_}:Stability.sweep",
        "if settled and not (self._view.suspects or self._view.strangers):\n",
        "if settled:\n")),
]  # fmt: skip
"""Bugs of how history ends."""

SESSIONS = [
    of("s1: what was dropped does not come again", 1,
       (f"{LINKS}:GroupLinks.dropped",
        "        self.numbered.clear()\n        self.came.clear()\n"
        "        for link in self._links.values():\n            link.incoming = None\n",
        "        pass\n")),
    of("s2: a receipt frees nothing", 1,
       (f"{LINKS}:GroupLinks._consider", "            outgoing.acknowledged(has)\n", "            pass\n")),
    of("s3: all names have the same places everywhere", "names_in_another_order",
       (f"{CHANNEL}:Incoming.learn", "            self._same = self._same and mine == index\n", "")),
    of("s4: a new link goes on where the old one was", 0,
       (f"{LINKS}:GroupLinks.up", "        self.down(process)\n        self._links[process] = GroupLink()\n",
        "        self._links.setdefault(process, GroupLink())\n"),
       (f"{LINKS}:GroupLinks.down",
        "        link = self._links.pop(process, None)\n", "        link = None\n")),
    of("s5: what lies further back than a window is not sent", 1,
       (f"{LINKS}:GroupLinks._own",
        "            yield from outgoing.backlog.read(outgoing.sent, allowance)\n",
        "")),
    of("s6: names that come later are not told", 0,
       (f"{CHANNEL}:Outgoing.packets", "names = names[self.told :]",
        "names = () if self.told else list(names)")),
    of("s7: what the log has not written yet is not read", 0,
       (f"{LEDGER}:Ledger.written", "for one in stored), fresh)", "for one in stored), ())")),
    of("s9: a peer with a link counts as heard", "leaves_before_it_has_heard",
       (f"{LINKS}:GroupLinks.hears", "if last is None or last.source != member:\n            return False",
        "if last is None:\n            return True")),
    of("s8: nothing is asked of others", 1,
       (f"{WANTS}:RelayRequests.of_each",
        "                if asked:\n", "                if False:\n")),
    of("s13: what was passed on goes out again when it is asked for again", "asked_by_turns",
       (f"{LINKS}:GroupLinks._pass_on", "relay.sent = outgoing.relayed.get(origin, 0)", "pass")),
    of("e1: nothing is asked of unknown ones", "leaver_without_the_join_of_another",
       LENDS_NOTHING),
    of("e2: nor in a tree", "leaver_without_the_join_of_another_in_a_tree",
       (f"{WANTS}:RelayRequests._of_tree", "if not ahead and (lender", "if False and (lender")),
    of("e3: they are asked for a suspect's messages, too", "suspect_of_which_a_stranger_has_more",
       (f"{WANTS}:RelayRequests._lender", " if origin in self._view.side else \"\"", "")),
    of("e5: one that asks for others' messages is taken to be heard", "two_without_each_others_joins",
       (f"{LINKS}:GroupLinks.hears", " and self._ledger.me not in last.unheard", "")),
    of("e4: one that was let in sends under the number that it had", "member_without_the_join_of_another",
       (f"{LINKS}:GroupLinks.opened", "(incoming.source, incoming.lends) != (member, lends)",
        "incoming.source != member")),
]  # fmt: skip
"""Bugs of what flows over session links."""

LOADED = [
    of("l1: everything that is stable is announced at once", "long_away",
       (f"{STABILITY_}:Stability.sweep",
        "ledger.window.sweep(self._settings.step_max)", "ledger.window.sweep()")),
    of("l2: a step reads all that a member lacks", "long_away",
       (f"{LINKS}:GroupLinks._serve", "Allowance(self._settings.step_max)", "Allowance(1 << 40)")),
    of("l3: to look for messages among others' costs nothing", "few_among_many",
       (f"{BACKLOG}:Backlog.read", "                allowance.spend(stored.data)\n", ""),
       (f"{BACKLOG}:Backlog.read", "                    yield stored",
        "                    allowance.spend(stored.data)\n"
        "                    yield stored")),
    of("l4: all names go with the first messages", "long_names",
       (f"{CHANNEL}:Outgoing.packets",
        "            if names and (LETTER_BYTES * sum(map(len, names)) + size > most):\n",
        "            if False:\n")),
    of("l6: every joiner is let in at once", "many_joiners",
       (f"{GATE}:StateSender.room", "return max(0, self._settings.joins_max - len(self.watched))",
        "return 1 << 20")),
    of("l7: each joiner has a state of its own", "many_joiners",
       (f"{GATE}:StateSender._made", "if shared and each.shared and each.upto >= seq]", "if False]")),
    of("l8: a state does for those who were let in later", "later_joiner",
       (f"{GATE}:StateSender._made", "each.shared and each.upto >= seq]", "each.shared]")),
    of("l9: a state is made in one step", "state_of_much",
       (f"{GATE}:StateSender._go_on", "handed.state.go_on(self._allowance)",
        "handed.state.go_on(Allowance(1 << 40))")),
    of("l10: a state is installed in one step", "state_of_much",
       (f"{SUCCESSION}:Succession._install", "installing.go_on(Allowance(most))",
        "installing.go_on(Allowance(1 << 40))")),
    of("l13: a state leaves in one step", "large_state",
       (f"{GATE}:StateSender.due", "while self._cut and self._left > 0:", "while self._cut:")),
    of("l14: all orphans are carried in one step", "much_to_carry",
       (f"{CARRYING}:Carrying.due", "self._may_go, ledger.count, self._left)",
        "self._may_go, ledger.count, 1 << 40)")),
    of("l15: a program is told of all orphans in one step", "much_to_carry",
       (f"{SUCCESSION}:Succession._tell_orphans", "min(most, len(self._untold))", "len(self._untold)")),
    of("l11: what comes for one that is silent is taken", "spoken_to_in_silence",
       (f"{DISPATCH}:Dispatcher.receive", "        if self._installing is not None and self._silent:\n",
        "        if False:\n"),
       (f"{NODE}:GroupNode.waiting", "member is None or (self._installing is not None and self._silent)",
        "member is None")),
    of("l12: one that is silent sends", "asked_in_silence",
       (f"{NODE}:GroupNode.in_debt",
        "        if self._installing is not None and self._silent:\n            return True\n", "")),
]  # fmt: skip
"""Bugs of doing much at once."""

LEAVERS = [
    of("l1: a leaver waits for a side that is not there", "leaver_is_deserted",
       (f"{PARTING}:Notices.is_due", "        if view.leaving:\n",
        "        if view.leaving:\n            return False\n")),
    of("l0: a leaver says nothing to those who came back", "leaver_whose_companions_came_back",
       (f"{PARTING}:Notices._has_come_back", "        return gone and not member.view.knows(source)\n",
        "        return False\n"), LENDS_NOTHING),
    of("l2: others are to return to one who leaves", "leaver_is_deserted",
       (f"{PARTING}:Notices.notice", "members = () if member.view.leaving else tuple", "members = tuple")),
    of("l3: a leaver that leaves no member behind leaves in order", "side_leaves_at_once",
       (f"{DISPATCH}:Dispatcher._afterwards", "member.left_for_good and not is_alone(member):",
        "member.left_for_good:")),
    of("l4: those who leave at once let each other go", "side_leaves_at_once",
       (f"{DISPATCH}:Dispatcher._bid_farewell",
        "        if not (member.view.leaving and is_alone(member)):\n",
        "        if True:\n")),
    of("l5: who came back without its disk is missed for ever", "all_leave_after_a_disk_was_lost",
       (f"{MEMBERSHIP}:Membership._joins",
        "            self._view.abandon(process_of(joiner), since)\n", "")),
    of("l6: those who came after suspects hear nothing", "suspects_have_moved_on",
       (f"{PARTING}:Notices._is_astray", "not (followed or elsewhere)", "not elsewhere")),
    of("l8: who waits for a slow program is taken for lost", "joiner_behind_a_slow_program",
       (f"{PARTING}:Notices._is_astray", "(elsewhere or not member.inbox)", "True")),
    of("l9: one whose side has left is not told", "joiner_whose_side_has_left",
       (f"{PARTING}:Notices._is_astray", "elsewhere or member.me in receipt.suspects", "elsewhere"),
       PAST_SHOWS_NOTHING),
    of("l14: contacts that are gone are asked for ever", "strangers 837",
       (f"{ENTRY}:JoinAttempt.give_up", "                self.meet(process)\n", "                pass\n")),
    of("l16: who returns may do so to the side that it comes from", "returner_that_is_not_answered",
       (f"{DISPATCH}:Dispatcher._return", "left=set(map(process_of, left))", "left=set()")),
    of("l17: a leaver goes while it returns", "leaver_that_is_answered_late",
       (f"{NODE}:GroupNode.wake", "if now >= self._leaving.until and self._entry.attempt is None:",
        "if now >= self._leaving.until:")),
    of("l15: one let in by a process that was put back is not told", "strangers 1134",
       (f"{PARTING}:Notices._is_astray",
        "        followed = followed or (returned and seen < member.ledger.stable(member.me))\n", "")),
    of("l7: a member that is to leave lets no joiner in", "leaver_that_has_to_be_returned_to",
       (f"{PARTING}:Leaving.lets_in", "or member.carrying.busy or", "or")),
]  # fmt: skip
"""Bugs of how the last ones of a side leave."""

DISKS = [
    of("d1: who has forgotten its end goes on as whom it was", "disks 9",
       (f"{SUCCESSION}:Succession.recovering", "if recovered is not None and forgetful:", "if False:")),
    of("d2: who has forgotten something says at once that this was all", "disks 52",
       (f"{RETURNING_}:returning",
        "state.tail_lost = forgetful or (carrying.must_announce and carrying.tail_lost)",
        "state.tail_lost = False")),
    of("d3: a log that was never finished counts", "disks 12",
       (f"{LIVES}:Incarnations.recover",
        "if snapshot is None or found is not None:", "if found is not None:")),
    of("d4: what one remembers who has forgotten the rest is dropped", "disks 19",
       (f"{SUCCESSION}:Succession._before", "Before(self.member or self.former,", "Before(self.member,")),
    of("d5: who has forgotten something does not wait for those who may be asked", "disks 713",
       (f"{CARRYING}:Carrying.closable", "if not len(view.spent) or view.open or self.busy:",
        "if not len(view.spent) or self.busy:")),
    of("d6: of two incarnations the newer gets the receipts, dead or not", "attempt_that_came_to_nothing",
       (f"{WATCH}:ReceiptScheduler._over_links", "(member not in view.suspects, number_of(member))",
        "number_of(member)")),
    of("d7: whom one lets in one may forget", "whom_it_let_in",
       (f"{GATE}:Contact.admit", "            self._log.insist()", "            pass")),
    of("d8: who has forgotten something does not wait for those who are missed", "whom_it_let_in",
       (f"{CARRYING}:Carrying.closable", "if not others and not closing", "if not closing")),
    of("d9: those who have forgotten something wait for each other", "all_forget",
       (f"{CARRYING}:Carrying.closable",
        " for name in view.suspects | view.strangers if name not in view.spent]",
        " for name in view.suspects | view.strangers]")),
    of("d10: incarnations that have forgotten something and left are never closed",
       "the_forgetful_one_leaves",
       (f"{MEMBER}:Member._close", "if (spent := self.carrying.closable()) and",
        "if self.carrying.must_announce and (spent := self.carrying.closable()) and")),
    of("d11: a joiner is not told who has brought what it remembers", "forgets_and_leaves",
       (f"{HANDOVER}:state_of", "        spent=tuple(view.spent),\n", "")),
    of("d12: who returns from a side does not tell what was brought there", "told_on_a_side_that_is_given_up",
       (f"{RETURNING_}:returning", "    state.spent = Spans([*state.spent, *old.view.spent]).all\n", "")),
    of("d13: who founds again does not know who was with it", "founds_again_before_it_has_told",
       (f"{RETURNING_}:refounding", "    state.strangers = _companions(old, forgetful=True)\n", "")),
    of("d14: a leaver that may have what was forgotten is not looked for", "only_a_leaver_has_it",
       (f"{RETURNING_}:_companions", "        found = found | view.departing.keys()\n", "        pass\n")),
    of("d15: two groups that were founded again do not notice each other", "two_found_again",
       (f"{PARTING}:Notices._is_astray",
        "process_of(source) in {process_of(name) for name in view.evicted()}", "False")),
    of("d16: who never was is looked for", "attempt_that_was_called_off",
       (f"{CARRYING}:Carrying.settled", "if number_of(name) > mine and name != running.attempt]",
        "if False]")),
    of("d17: attempts are forgotten by a restart", "attempt_before_a_restart",
       (f"{LIVES}:Incarnations.reserve", "since = (self._shelf.since or number) if fresh else 0",
        "since = number if fresh else 0")),
    of("d18: a life is closed while a later one may have what it had", "a_later_life_has_it",
       (f"{CARRYING}:Carrying.closable", "or number_of(name) > high]", "]")),
    of("d20: an unknown incarnation is always sent back", "heard_by_two_who_do_not_hear_each_other",
       (f"{PARTING}:Notices._is_astray", "member.ledger.sent > seen == 0", "True"), LENDS_NOTHING),
    of("d21: an attempt counts as a return", "an_attempt_is_no_return",
       (f"{VIEW}:GroupView.missed",
        "return [m for m in lost if newest.get(process_of(m), 0) <= number_of(m)]",
        'return [m for m in lost if not self.is_superseded(f"{process_of(m)}~{number_of(m) + 1}")]')),
    of("d22: who founds again forgets what was settled", "founds_again_what_was_settled",
       (f"{RETURNING_}:refounding", "    state.settled_before = old.carrying.settled_before\n", "")),
    of("d23: who is past is looked for on the next side", "stranger_of_long_ago",
       (f"{RETURNING_}:_companions", "{name for name in found if name not in view.past}", "found")),
]  # fmt: skip
"""Bugs of what is found on a disk."""

ORPHANS = [
    of("o1: what follows from something that was declined is sent again", "a_declined_operation",
       (f"{RETURNING_}:decided", "        declined = yield from _with_followers(old, declined)\n", "")),
    of("o2: who has declined something says at once that this was all", "declined_and_brought",
       (f"{RETURNING_}:decided", "        state.tail_lost = True\n", "        pass\n")),
    of("o3: the program is not asked", "a_declined_operation",
       (f"{RETURNING_}:decided", "if not application.sends_again(orphan):", "if False:")),
    of("o4: new broadcasts go before what is sent again", "own_order",
       (f"{NODE}:GroupNode.in_debt", "bool(member.operations.orphans)", "False")),
    of("o5: what is sent again goes out backwards", "own_order",
       (f"{RETURNING_}:_unknown", "    return list(found.values())\n",
        "    return list(found.values())[::-1]\n")),
    of("o6: broadcasts wait for ever", "own_order_is_not_waited_for_for_ever",
       (f"{SENDING}:SendQueue.overdue", "self.held[0].until <= now", "False")),
    of("o7: any number of broadcasts may wait", "own_order_is_not_waited_for_for_ever",
       (f"{SENDING}:SendQueue.add", "        if full:\n", "        if False:\n")),
]  # fmt: skip
"""Bugs of what applications do not want."""

LIES = [
    of("i1: a packet is believed about who sent it", "guest 7",
       (f"{DISPATCH}:Dispatcher.receive", "        check_speaker(peer, packet)\n", "")),
    of("i2: messages count under another link's number", "guest 1",
       (f"{RECEIVING}:Receiving._incoming", "        if process_of(incoming.source) != peer:\n",
        "        if False:\n")),
    of("i3: a guest may pass on receipts of members", "guest 103",
       (f"{DISPATCH}:Dispatcher.receive",
        "if member and (process_of(packet.source) == peer or member.receiving.trusts(peer)):", "if member:")),
    of("i5: an origin's messages may come with a gap", "traitor 100",
       (f"{GRAPH}:GraphOrderer.receive", "            missing.append(message.before)", "            pass")),
    of("i7: a contact that lies about the program's state is asked first again", "asks_another",
       (f"{ENTRY}:JoinAttempt.refused", "        self._passed.add(contact)\n", "")),
    of("i8: a program that can install no state is not told", "gives_up",
       (f"{ENTRY}:JoinAttempt.refused", "            raise error\n", "            pass\n")),
    of("i9: a member stops that cannot install the state of one contact", "member_goes_on",
       (f"{ENTRY}:JoinAttempt.refused",
        "self.attempt.outside or all(refused[other] for other in self._contacts)",
        "True")),
    of("i10: a program goes on from a state that it could not install", "member_goes_on",
       (f"{SUCCESSION}:Succession._is_installed", "                self.application.install(before)\n",
        "                pass\n")),
    of("i11: what a program raises stops the joiner", "asks_another",
       (f"{SUCCESSION}:Succession._is_installed", "            self._entry.refused(error, now)\n",
        "            raise\n")),
]  # fmt: skip
"""Bugs that only peers that lie can find."""

EXTENTS = "thence.members.extents"

READERS = [
    of("r0: what was carried under the name of a start is told again", "heard_under_another_start",
       (f"{READING_}:Reading.extent", "known.items() if count}", "known.items() if not count}"),
       (f"{EXTENTS}:Progress.covers", "self.counts.get(member, 0) or", "self.counts.get(origin, 0) or")),
    of("r00: what was carried of another timeline is told again", "carried_to_it_under_another_start",
       (f"{READING_}:Reading.extent", "before.carried | operations.carried", "before.carried")),
    of("r1: what a program missed is not told", "missed_while_evicted",
       (f"{RETURNING_}:goes_on", "state.unread = [*reading.unread, *missed]",
        "state.unread = [*reading.unread]")),
    of("r2: what a program had before its return is told again", "heard_before_its_return",
       (f"{DELIVERY}:Delivery._apply", "again = self._reading.had(", "again = False and self._reading.had(")),
    of("r3: what all others have is not handed over", "forgotten_and_kept",
       (f"{READING_}:handed_over", "return history, tuple(sorted(lost))", "return [], tuple(sorted(lost))")),
    of("r4: what no log holds is not named", "forgotten_and_gone",
       (f"{READING_}:handed_over", "return history, tuple(sorted(lost))", "return history, ()")),
    of("r5: one who came late takes its log for whole", "disks 61",
       (f"{HANDOVER}:state_of", "reach=told if joins and not operations.inherited else reading.reach",
        "reach={}")),
    of("r6: who was past before the contact came is not named", "disks 353",
       (f"{READING_}:handed_over", "        lost += unknown(ledger, progress)\n", "        pass\n")),
    of("r7: logs are kept for no member", "forgotten_and_kept",
       (f"{LIVES}:Incarnations.written_down", ", self._settings.history_bytes)", ", 0)")),
    of("r8: a restart forgets what was read", 7,
       (f"{MEMBER}:Member.recovered", "        self.reading.recall(notes)\n", "")),
    of("r10: of one that is past every timeline was had", "other_timeline_of_one_that_is_past",
       (f"{EXTENTS}:Progress.covers",
        "        if place in self.carried or exact in self.carried:\n",
        "        if origin in self.past or place in self.carried or exact in self.carried:\n")),
    of("r11: how far those that are past have come is not told", "other_timeline_of_one_that_is_past",
       (f"{READING_}:Reading.extent", "known.items() if count}",
        "known.items() if count and name not in ledger.past}")),
    of("r9: what was missed and not read is forgotten at the next return", "missed_twice",
       (f"{RETURNING_}:goes_on", "state.unread = [*reading.unread, *missed]", "state.unread = missed")),
]  # fmt: skip
"""Bugs of what programs without a state are told."""

PASSING = "thence.replica.group.receipts.passing"
VICINITY = "thence.replica.group.channel.vicinity"

TREES = [
    of("t1: the way that rings tell is the only one", "sleeper_in_between",
       (f"{WANTS}:RelayRequests._along", "elif now - since >= self._settings.overdue_us:", "elif False:")),
    of("t2: receipts are not passed on", "tree 8",
       (f"{PASSING}:Passing.pass_on", "words = self._news(link.passed, sources)", "words = []")),
    of("t3: a neighbour that is not heard will do", "tree 101",
       (f"{VICINITY}:Vicinity.look", "if since > recent or peer in near}", "}")),
    of("t4: neighbours that cannot be reached are not passed over", "dead_neighbours",
       (f"{VICINITY}:Vicinity.look", "until if until > now else 0",
        "until if until > now else 9**18")),
    of("c1: a collector passes nothing on", "few_receipts",
       (f"{PASSING}:Passing._collect", "for packet in packets]", "for packet in []]")),
    of("c2: those that the collector tells are told by all", "few_receipts",
       (f"{WATCH}:ReceiptScheduler._over_links", "due = said != link.said and member not in view.departing",
        "due = True")),
    of("c3: one that does not hear the collector gets nothing from others", "one_without_the_collector",
       (f"{WATCH}:ReceiptScheduler._collector", "else links.hears(first)):", "else True):"),
       (f"{WATCH}:ReceiptScheduler._collector", "return \"\" if self._peers.silent([first], ",
        "return first if self._peers.silent([first], ")),
    of("r1: nothing is passed on over the trunk", "told_over_one_tree",
       (f"{WATCH}:ReceiptScheduler.passes", "return member in self._branches", "return False")),
    of("r2: every link is a branch of the trunk", "told_over_one_tree",
       (f"{WATCH}:ReceiptScheduler.passes", "return member in self._branches", "return True")),
    of("r3: those whose way leads here are not on the trunk", "told_over_one_tree",
       (f"{WATCH}:ReceiptScheduler._branch", " or via in wants:", ":")),
    of("r4: a receipt that comes before its source's JOIN is lost", "a_receipt_before_the_join",
       (f"{PASSING}:Passing.keep", "self._early[receipt.source] = receipt, via", "pass")),
    of("r5: the next receipt takes the place of the one before the JOIN", "a_receipt_before_the_join",
       (f"{PASSING}:Passing.keep", "before.counts | receipt.counts", "receipt.counts")),
    of("c4: what is new of a receipt does not tell what its source had sent", "full 17000060",
       (f"{PASSING}:Passing._news", " or name == source}", "}"), LENDS_NOTHING),
    of("t6: a message is passed on out of turn", "out_of_turn",
       (f"{LINKS}:GroupLinks.forward", "relay.sent == before < relay.last", "before < relay.last")),
    of("t7: a message counts as passed on and is not", "sleeper_in_between",
       (f"{LINKS}:GroupLinks.forward", "                outgoing.add(data)\n", "")),
    of("u1: a run follows the operation before its last", "runs 0",
       ("thence.core.message:Message.__init__", "dot - span * STEP", "dot - STEP")),
    of("u2: an operation in the midst of a run is looked for by its own name", "runs 0",
       ("thence.order.runs:Runs.holding",
        "        return ends[at] if at < len(ends) and self._firsts[dot & ORIGIN_MASK][at] <= dot else dot\n",
        "        return dot\n")),
    of("u3: only the last operation of a run is told as delivered", "runs 0",
       (f"{ROWS}:MemberRows.each", "        for seq in counters_of(message):\n",
        "        for seq in list(counters_of(message))[-1:]:\n")),
    of("u4: of a run that has to be carried the last operation is", "run_of_orphans",
       (f"{CARRYING}:operations_in",
        "        return found\n", "        return found[-1:]\n")),
    of("u5: what was sent before a restart is skipped", "run_after_a_restart",
       (f"{LINKS}:GroupLinks._own", "        if not self._recent or outgoing.sent < self._before:\n",
        "        if outgoing.sent < self._before:\n")),
    of("u6: a fragment is lost", "large 2",
       (f"{CHANNEL}:Fragmenting.due", "            yield Fragment(",
        "            if at != size:\n                yield Fragment(")),
    of("u7: half of an operation counts as all", "large 2",
       (f"{CHANNEL}:Assembling.add", "if self._have < self._total:", "if 2 * self._have < self._total:")),
    of("u8: half of an operation is delivered", "large 2",
       (f"{DELIVERY}:Delivery.deliver", "(origin, seq, payload[1:])", "(origin, seq, payload[1:200])")),
    of("u9: what stands behind a large message does not wait for its end", "large_along_a_tree",
       (f"{CHANNEL}:Outgoing.packets", "if fragments.busy or not ready:", "if not ready:")),
    of("u10: the sender is not told that fragments came", "large_over_a_link_that_breaks",
       (f"{RECEIVING}:Receiving.fragment",
        "        self._posts.append((peer, FragmentReceipt(packet.stream, incoming.fragments.came)))\n",
        "")),
    of("u11: a receipt for fragments moves nothing", "large_and_a_restart_midway",
       (f"{LINKS}:GroupLinks.fragment_receipt", "            self._filled.append(outgoing)\n",
        "            pass\n")),
    of("u12: what has come of an operation outlives its link", "large_over_a_link_that_breaks",
       (f"{CHANNEL}:Incoming.__init__", "Assembling(most)", "_KEPT.setdefault(source, Assembling(most))"),
       (f"{CHANNEL}:_codec", "def _codec(", "_KEPT: dict[str, Assembling] = {}\n\n\ndef _codec(")),
    of("u13: a large message on its way lets small ones leave before it", "large_over_a_link_that_breaks",
       (f"{CHANNEL}:Outgoing.packets", "_first_above(most, ready)", "len(ready)")),
    of("u14: operations of one origin keep those of another from being passed on", "small_behind_large",
       (f"{CHANNEL}:Outgoing.may_pass", " or relay.sent == relay.began", "")),
]  # fmt: skip
"""Bugs of groups over trees, of runs and of fragments."""

STEPS = "thence.replica.steps"
HELD = "thence.replica.held_outputs"

TURNS = [
    of("v1: what a step has done leaves before it is synced", "points 0",
       (f"{HELD}:HeldOutputs._may_leave", "or log.may_leave(held.position)", "or True")),
    of("v2: a program hears of what is not written", "points 0",
       (f"{STEPS}:Steps._end", "effects = machine.commit(now)",
        "effects = machine.commit(now) if now % 3 else ()")),
    of("v3: what is acknowledged is not written", "points 0",
       (f"{STEPS}:Steps._end", "Held(log, log.tail if log is not None else 0",
        "Held(log, log.durable if log is not None else 0")),
    of("v4: a program takes in the midst of a run", "take_inside_a_turn",
       (f"{STEPS}:Steps._close_run", "        if self.calls.asked:\n            self.settle(now)\n",
        "        return\n")),
    of("v5: a run is split, and its end lost", "run_of_orphans",
       ("thence.core.runs:payload_run", "    return found\n",
        "    return found[: max(2, len(found) - 1)]\n")),
]  # fmt: skip
"""Bugs of a turn: act, write, sync, tell, send."""

MUTANTS = STABILITY + CUT + PROGRESS + HISTORY + HISTORY_ENDS + SESSIONS + LEAVERS + DISKS + ORPHANS
MUTANTS += LIES + LOADED + READERS + TREES + TURNS
