"""The event loop of a simulated overlay: nodes that come and go, and session links between them.

Virtual time and one heap, as in `sim.world`; but nodes choose their neighbours, links are sessions
(`sim.overlay_links`), and nothing ever comes to rest, since trees beat: the run decides when it is over.
Everything random is drawn from streams derived from the seed.
"""

from collections.abc import Callable
from heapq import heappop
from random import Random

from thence.core.codec import Codec
from thence.core.errors import InvariantError
from thence.core.machine import Packet, Transmit, Wake
from thence.members.views import Close, Connect
from thence.sim.faults import Cut, Pause
from thence.sim.overlay_limits import Limits
from thence.sim.overlay_links import OverlayLinks, Session, pair
from thence.sim.overlay_meter import Meter
from thence.sim.overlay_node import MembersWake, NodeEffect, OverlayNode
from thence.sim.overlay_plan import Arrive, Depart, Happening, OverlayPlan, Reset
from thence.sim.virtual_time import EventWorld
from thence.trace.recorder import CRASH, Recorder

PACKET, TAKEN_IN, WAKE, MEMBERS_WAKE, SEND = range(5)
OPEN, OPENED, GIVE_UP, DOWN, ENDED, SILENT, HAPPEN, END = range(5, 13)

Event = tuple[int, int, int, int, int, object]
"""When, tie-breaker, what, which node, which peer (of wake-ups and sends: which life), with what."""

CONNECT_US = 2_000_000
"""After so long without an answer, opening a link has failed."""

ASK_US = 500_000
"""A newcomer that finds no node up asks again after so long: `runtime.discovery`."""

MOST_AT_ONCE = 1_000_000
"""Events at one instant: more of them are a machine that wakes itself without end."""

Maker = Callable[[int, tuple[int, ...], int], OverlayNode]
"""Makes a node, new or from what is left of it, that knows some others."""


class OverlayWorld(EventWorld):
    def __init__(
        self,
        plan: OverlayPlan,
        delay: Callable[[int, int], int],
        codec: Codec,
        meter: Meter,
        maker: Maker,
        recorders: list[Recorder],
        seed: int,
        interval_us: int,
        probability: float,
        payload: bytes,
        silence_us: int,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(recorders)
        self.nodes: dict[int, OverlayNode] = {}
        """Those that are up, by index; in the order in which they came."""
        self.asking: set[int] = set()
        """Newcomers that no node has answered yet."""
        self.crashes = 0
        self.sent_bytes = [0] * plan.size
        self._plan = plan
        self._delay = delay
        self._encode = codec.encode
        self._meter = meter
        self._maker = maker
        self._interval_us = interval_us
        self._probability = probability
        self._payload = payload
        self._silence_us = silence_us
        self._limits = limits
        self._contacts = Random(f"{seed}/contacts")
        self._phase = Random(f"{seed}/interval")
        self._chance = Random(f"{seed}/links")
        self._links = OverlayLinks(plan.size)
        self._lives = [0] * plan.size
        self._known: dict[int, tuple[int, ...]] = {}
        self._paused: dict[int, list[Event]] = {}
        for happening in plan.happenings:
            self._push(happening.at_us, HAPPEN, -1, what=happening)

    def run(self, until_us: int) -> None:
        """Let everything happen up to a time."""
        heap: list[Event] = self._heap
        at_once = 0
        while heap and heap[0][0] <= until_us:
            event = heappop(heap)
            now, _, kind, node, peer, what = event
            at_once = at_once + 1 if now == self.now else 0
            if at_once > MOST_AT_ONCE:
                raise InvariantError(f"time stands still at {now / 1e6} s: n{node} has no rest")
            self.now = now
            if self._paused and node in self._paused:
                self._paused[node].append(event)
                continue
            here = self.nodes.get(node)
            if kind >= HAPPEN:
                self._happen(what, kind == END)  # type: ignore[arg-type]  # these carry a happening
            elif here is None:
                if kind == OPEN:
                    self._refused(what, now)  # type: ignore[arg-type]  # these carry a session
            elif kind <= TAKEN_IN:
                assert isinstance(what, tuple)
                session, packet, size = what
                if self._links.get(node, peer) is not session:
                    continue
                if kind == PACKET and self._limits is not None:
                    self._push(self._limits.arrives(node, packet, size, now), TAKEN_IN, node, peer, what)
                else:
                    self._carry_out(node, here.packet(peer, packet, now))
            elif kind == WAKE:
                if peer == self._lives[node]:
                    self._carry_out(node, here.wake_spread(now))
            elif kind == MEMBERS_WAKE:
                if peer == self._lives[node]:
                    self._carry_out(node, here.wake_members(now))
            elif kind == SEND:
                if peer == self._lives[node]:
                    self._send(node, here, now)
            else:
                self._link_event(kind, node, peer, what, here)
        self.now = max(self.now, until_us)

    def _send(self, node: int, here: OverlayNode, now: int) -> None:
        if now >= self._plan.until_us:
            return
        self._push(now + self._interval_us, SEND, node, self._lives[node])
        if self._probability >= 1 or self._phase.random() < self._probability:
            self._carry_out(node, here.send(self._payload, now))

    def _carry_out(self, node: int, effects: list[NodeEffect]) -> None:
        now = self.now
        for effect in effects:
            if type(effect) is Transmit:
                packet = effect.packet
                size = len(self._encode(packet))
                self.sent_bytes[node] += size * len(effect.peers)
                self._meter.transmitted(type(packet), size, len(effect.peers), now)
                for peer in effect.peers:
                    self._transmit(node, peer, packet, size, now)
            elif type(effect) is Wake:
                self._push(effect.at, WAKE, node, self._lives[node])
            elif type(effect) is MembersWake:
                self._push(effect.at, MEMBERS_WAKE, node, self._lives[node])
            elif type(effect) is Connect:
                self._connect(node, effect.peer, now)
            elif type(effect) is Close:
                self._hang_up(node, effect.peer, now)

    # Links

    def _transmit(self, node: int, peer: int, packet: Packet, size: int, now: int) -> None:
        session = self._links.get(node, peer)
        if session is None:
            return
        if self._cut and (node, peer) in self._cut:
            session.stuck.append((node, peer, packet))
            return
        leaves = now if self._limits is None else self._limits.leaves(node, size, now)
        at = max(leaves + self._delay(node, peer), session.arrives[peer])
        session.arrives[peer] = at
        self._push(at, PACKET, peer, node, (session, packet, size))

    def _connect(self, node: int, peer: int, now: int) -> None:
        if self._links.get(node, peer) is not None:
            self._push(now, OPENED, node, peer, self._links.get(node, peer))
            return
        key = pair(node, peer)
        session = self._links.opening.get(key)
        if session is not None:
            session.wanted.add(node)
            return
        session = Session(node, peer, now)
        self._links.opening[key] = session
        self._push(now + CONNECT_US, GIVE_UP, node, peer, session)
        if (node, peer) not in self._cut and (peer, node) not in self._cut:
            self._push(now + self._delay(node, peer), OPEN, peer, node, session)

    def _refused(self, session: Session, now: int) -> None:
        """No node is there."""
        node, other = session.arrives
        self._push(now + self._delay(node, other), DOWN, session.opener, other, session)

    def _link_event(self, kind: int, node: int, peer: int, what: object, here: OverlayNode) -> None:
        assert isinstance(what, Session)
        now, links = self.now, self._links
        if kind == OPEN:
            if links.opening.get(pair(node, peer)) is not what or peer not in self.nodes:
                return
            self._lose(node, peer, here)  # the other end would not open a new one if the old one were good
            links.put(node, peer, what)
            what.arrives[peer] = now + self._delay(node, peer)
            self._push(what.arrives[peer], OPENED, peer, node, what)
            what.wanted.discard(node)
            self._carry_out(node, here.linked(peer, now))
        elif kind == OPENED:
            if links.opening.get(pair(node, peer)) is what:
                del links.opening[pair(node, peer)]
                self._lose(node, peer, here)
                links.put(node, peer, what)
            if links.get(node, peer) is what:
                what.wanted.discard(node)
                self._carry_out(node, here.linked(peer, now))
        elif kind == GIVE_UP:
            if links.opening.get(pair(node, peer)) is what:
                self._push(now + self._delay(node, peer), DOWN, peer, node, what)
                self._gone(node, peer, what, here)
        elif kind == DOWN and self._limits is not None:
            # First what came before the end.
            self._push(max(now, self._limits.busy_until(node)), ENDED, node, peer, what)
        elif kind in (DOWN, ENDED):
            self._gone(node, peer, what, here)
        elif links.get(node, peer) is what and (
            self._mute(node, peer) or links.get(peer, node) is not what  # half open: no answer but a reset
        ):
            if (node, peer) not in self._cut:
                self._push(now + self._delay(node, peer), DOWN, peer, node, what)
            self._gone(node, peer, what, here)

    def _gone(self, node: int, peer: int, session: Session, here: OverlayNode) -> None:
        """A link broke, or was not to be opened; the end that waited for it is told."""
        key = pair(node, peer)
        if self._links.opening.get(key) is session:
            del self._links.opening[key]
            for end in sorted(session.wanted - {node}):
                self._push(self.now, DOWN, end, node, session)
        if self._links.get(node, peer) is session:
            self._links.drop(node, peer)
        elif node not in session.wanted or self._links.get(node, peer) is not None:
            return  # another one has come up meanwhile
        session.wanted.discard(node)
        self._carry_out(node, here.unlinked(peer, self.now))

    def _lose(self, node: int, peer: int, here: OverlayNode) -> None:
        """An old link that this end still believed in."""
        if self._links.drop(node, peer) is not None:
            self._carry_out(node, here.unlinked(peer, self.now))

    def _hang_up(self, node: int, peer: int, now: int) -> None:
        """One end closes; the other reads what was sent, then the end."""
        session = self._links.drop(node, peer)
        if session is not None and (node, peer) not in self._cut:
            at = max(now + self._delay(node, peer), session.arrives[peer])
            self._push(at, DOWN, peer, node, session)

    def _mute(self, node: int, peer: int) -> bool:
        return (peer, node) in self._cut or (node, peer) in self._cut or peer in self._paused

    def _watch(self, node: int, peer: int, session: Session) -> None:
        """If this end hears nothing from now on, it will notice."""
        wait = self._silence_us + self._chance.randrange(self._silence_us // 2 + 1)
        self._push(self.now + wait, SILENT, node, peer, session)

    # What the plan says

    def _happen(self, what: Happening, over: bool) -> None:
        if isinstance(what, Arrive):
            self._arrive(what.node)
        elif isinstance(what, Depart):
            self._depart(what)
        elif isinstance(what, Reset):
            self._reset(what)
        elif isinstance(what, Cut):
            self._mend(what) if over else self._part(what)
        elif isinstance(what, Pause):
            self._pause(what, over)
        elif over:
            self._arrive(what.node)
        elif what.node in self.nodes:
            self._kill(what.node)
            self._push(what.until_us, END, -1, what=what)

    def _arrive(self, node: int) -> None:
        if node in self.nodes:
            return
        contacts = self._known.get(node, ())
        if not self.nodes and not self._lives[node] and any(self._lives):
            # All others are down. One that began alone would make a second group, of which they never hear.
            self.asking.add(node)
            self._push(self.now + ASK_US, HAPPEN, -1, what=Arrive(self.now + ASK_US, node))
            return
        self.asking.discard(node)
        if not contacts and self.nodes:
            there = list(self.nodes)
            contacts = tuple(self._contacts.sample(there, min(3, len(there))))
        self._lives[node] += 1
        here = self._maker(node, contacts, self.now)
        self.nodes[node] = here
        self._meter.appeared(node, self.now)
        self._carry_out(node, here.start(self.now))
        first = max(self.now, self._plan.sending_us) + self._phase.randrange(self._interval_us)
        self._push(first, SEND, node, self._lives[node])

    def _depart(self, what: Depart) -> None:
        node = what.node
        here = self.nodes.get(node)
        if here is None:
            return
        if what.polite:
            self._carry_out(node, here.leave(self.now))
        self._kill(node)
        if not what.polite:
            self._recorders[node].record(CRASH, 0, self.now)

    def _kill(self, node: int) -> None:
        """The process dies; its machine tells the peers that had a link to it."""
        self._known[node] = self.nodes.pop(node).known
        if self._limits is not None:
            self._limits.restart(node)
        self._lives[node] += 1
        self._paused.pop(node, None)
        self.crashes += 1
        for peer in list(self._links.of(node)):
            session = self._links.get(node, peer)
            self._hang_up(node, peer, self.now)
            if session is not None and (node, peer) in self._cut:
                self._push(self.now + self._silence_us, DOWN, peer, node, session)
        for key in [key for key in self._links.opening if node in key]:
            session = self._links.opening.pop(key)
            other = key[0] if key[1] == node else key[1]
            self._push(self.now + self._delay(node, other), DOWN, other, node, session)

    def _reset(self, what: Reset) -> None:
        session = self._links.get(what.node, what.peer)
        here = self.nodes.get(what.node)
        if session is None or here is None:
            return
        self._links.drop(what.node, what.peer)
        self._push(self.now + 2 * self._silence_us, DOWN, what.peer, what.node, session)
        self._carry_out(what.node, here.unlinked(what.peer, self.now))

    def _is_there(self, node: int) -> bool:
        return node in self.nodes

    def _part(self, what: Cut) -> None:
        self._begin_cut(what)
        for node, peer in sorted(what.links):
            for one, other in ((node, peer), (peer, node)):
                session = self._links.get(one, other)
                if session is not None:
                    self._watch(one, other, session)
        self._push(what.until_us, END, -1, what=what)

    def _mend(self, what: Cut) -> None:
        self._end_cut(what)
        for node, peer in sorted(what.links):
            session = self._links.get(node, peer)
            if session is not None and (node, peer) not in self._cut:
                stuck, session.stuck = session.stuck, []
                for one, other, packet in stuck:
                    if (one, other) == (node, peer):
                        size = len(self._encode(packet))  # type: ignore[arg-type]  # it is one
                        self._transmit(one, other, packet, size, self.now)  # type: ignore[arg-type]
                    else:
                        session.stuck.append((one, other, packet))

    def _pause(self, what: Pause, over: bool) -> None:
        node = what.node
        if over:
            for at, _, kind, _, peer, carried in self._paused.pop(node, ()):
                self._push(max(at, self.now), kind, node, peer, carried)
            return
        if node not in self.nodes or node in self._paused:
            return
        self._paused[node] = []
        for peer, session in self._links.of(node).items():
            self._watch(peer, node, session)
        self._push(what.until_us, END, -1, what=what)
