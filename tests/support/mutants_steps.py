"""Bugs planted into the steps of a live node, its driver and its machines: each must be found by the check of
`conformance_steps` that is named beside it, which says so with the given word.
"""

from dataclasses import dataclass

from support.mutants import Edit

STEPS = "thence.replica.steps"
HELD = "thence.replica.held_outputs"
CALLS = "thence.replica.pending_calls"
DRIVER = "thence.runtime.driver"
BATCHING = "thence.runtime.batching"
ALARM = "thence.runtime.alarm"
OUTLET = "thence.runtime.outlet"
SYNCING = "thence.runtime.syncing"
CHANGING = "thence.replica.group.process.node"


@dataclass(frozen=True, slots=True)
class StepMutant:
    name: str
    check: str
    finds: str
    edits: tuple[Edit, ...]


def of(*mutants: tuple[str, str, str, *tuple[Edit, ...]]) -> list[StepMutant]:
    return [StepMutant(name, check, finds, tuple(edits)) for name, check, finds, *edits in mutants]


ORDER = of(
    ("under always steps have consequences before they are synced",
     "under always a broadcast is synced before anything leaves", "early",
     (HELD, "or log.may_leave(held.position)", "or True")),
    ("packets do not wait for the sync",
     "under always a broadcast is synced before anything leaves", "early",
     (f"{STEPS}:Steps._end", "release = Release(posts, links, events, answers)\n",
      "release = Release((), links, events, answers)\n"
      "            self.effects.append(Release(posts, None, (), ()))\n")),
    ("what a step appended last need not be durable",
     "under always a broadcast is synced before anything leaves", "early",
     (f"{STEPS}:Steps._end", "Held(log, log.tail if log is not None",
      "Held(log, log.durable if log is not None")),
    ("what insists is not waited for",
     "what insists on a sync waits for it whatever the policy", "early",
     (f"{HELD}:HeldOutputs._may_leave", "or log.may_leave(held.position)", "or log.durable >= 0")),
    ("a program takes what is not synced",
     "under always a message is synced before it is told or taken", "early",
     (f"{STEPS}:Steps._end", "release = Release(posts, links, events, answers)\n",
      "release = Release(posts, links, (), answers)\n"
      "            self.effects.append(Release((), None, events, ()))\n")),
    ("what is durable overtakes what is not",
     "a segment that seals lets nothing overtake what waits for an earlier sync", "order",
     (f"{STEPS}:Steps._end", "        posts, links, events = output\n",
      "        posts, links, events = output\n"
      "        if log is not None and log.may_leave(log.tail):\n"
      "            self.effects.append(Release(posts, None, (), ()))\n"
      "            posts = ()\n")),
    ("rows come after packets",
     "a broadcast is written then traced then sent then answered", "order",
     (f"{HELD}:HeldOutputs._release", "            rows = list(first.rows)\n            try:\n",
      "            rows = list(first.rows)\n"
      "            if rows and first.release != Release((), None, (), ()):\n"
      "                held.appendleft(first._replace(release=Release((), None, (), ())))\n"
      "                self.effects.append(first.release)\n"
      "                return\n"
      "            try:\n"),
     (f"{DRIVER}:Driver._carry_out", "            self._drain()\n            if self.latency",
      "            self._drain()\n            steps._release()\n            if self.latency")),
    ("a step has no rows",
     "a broadcast is written then traced then sent then answered", "lost",
     (f"{STEPS}:Steps._end", "rows, output = self._trace.take(), machine",
      "rows, output = self._trace.take()[:0], machine")),
    ("each call is a step",
     "what a turn asks for is two writes and one if the last turn asked for much", "write",
     (f"{CALLS}:PendingCalls.broadcast", "        if len(batch) > 1:\n", "        if False:\n"),
     (f"{CALLS}:PendingCalls.broadcast",
      "                answers.append((call, machine.broadcast(payloads, now)))\n",
      "                answers.append((call, machine.broadcast(payloads, now)))\n"
      "                machine.commit(now)\n")),
    ("a lone call waits until the loop comes round",
     "what a turn asks for is two writes and one if the last turn asked for much", "write",
     (f"{BATCHING}:CallBatch.publish",
      "            self.settle()\n", "            pass\n")),
    ("calls are not gathered",
     "what a turn asks for is two writes and one if the last turn asked for much", "write",
     (f"{BATCHING}:CallBatch.publish", "        lone = self.turn is None and not self._several\n",
      "        lone = True\n")),
    ("syncs by the clock are forgotten",
     "a sync that is due by the clock is asked for", "stuck",
     (f"{STEPS}:Steps._log_effects",
      "                self._log_wake_at = min(self._log_wake_at, effect.at)\n", "                pass\n")),
    ("one that makes no sense spoils its turn",
     "what makes no sense is refused and nothing else is", "refused",
     (f"{CALLS}:PendingCalls.broadcast", "                self._effects.append(RefuseCalls([call], error))\n",
      "                self._effects.append(RefuseCalls([call for _, call in batch], error))\n"
      "                return []\n")),
    ("one that makes no sense is half sent",
     "what makes no sense is refused and nothing else is", "counter",
     (f"{CHANGING}:GroupNode.broadcast",
      "            must_fit(payloads, self._payload_max)\n",
      "            must_fit(payloads[:1], self._payload_max)\n"),
     (f"{CHANGING}:GroupNode.broadcast",
      "        return member.operations_of(payloads, self._payload_max, now)\n",
      "        sent = []\n"
      "        for payload in payloads:\n"
      "            if len(payload) > self._payload_max:\n"
      "                raise UsageError(\"too long\")\n"
      "            sent += self.member.operations_of([payload], self._payload_max, now)\n"
      "        return sent\n")),
    ("what came before garbage is dropped with it",
     "what came before garbage counts and the garbage is told", "lost",
     (f"{STEPS}:Steps.receive", "            for packet in packets:\n",
      "            for packet in list(packets):\n")),
    ("garbage is passed over",
     "what came before garbage counts and the garbage is told", "garbage",
     (f"{STEPS}:Steps.receive", "        if garbage is not None:\n            raise garbage\n", "")),
    ("garbage costs no link",
     "what the machine refuses is garbage as well", "garbage",
     (f"{DRIVER}:Driver.packets", "        finally:\n            self._carry_out(now)\n",
      "        finally:\n            self._carry_out(now)\n            return\n")),
    ("garbage stops the node",
     "what the machine refuses is garbage as well", "garbage",
     (f"{STEPS}:Steps.receive", "        except PeerError as error:\n            garbage = error\n", "")),
    ("the log forgets before the trace is written",
     "the log forgets nothing of which the trace does not know", "early",
     (f"{STEPS}:Steps._tidy", "        if self._held and log is not None:\n            log.sync(now)",
      "        if False:\n            log.sync(now)"),
     (f"{STEPS}:Steps._tidy", "        if not self._held:\n            machine.tidy(now)\n",
      "        machine.tidy(now)\n")),
)  # fmt: skip

FULL = of(
    ("rows of a step that could not be written stay",
     "a full disk refuses definitely and the step never happened", "trace",
     (STEPS, "        self._trace.take_back()\n        self.machine.drop()\n",
      "        self.machine.drop()\n")),
    ("after a full disk the process goes on as it is",
     "what is asked of the machine is refused while nothing is written", "counter",
     (f"{STEPS}:Steps.probe", "            machine = self._make(now)\n",
      "            machine = self.machine\n")),
    ("links go on though nothing is written",
     "a full disk refuses definitely and the step never happened", "lost",
     (f"{STEPS}:Steps._failed", "        self.calls.refuse(refused(error))\n"
      "        self.effects.append(BeginAnew(str(error)))\n",
      "        self.calls.refuse(refused(error))\n")),
    ("broadcasts are gathered though nothing is written",
     "a full disk refuses definitely and the step never happened", "silent",
     (f"{STEPS}:Steps.ask", "why = refused(self.why) if self.why is not None else self.machine.refuses",
      "why = self.machine.refuses")),
    ("what was gathered when the disk was full is never answered",
     "what was gathered when the disk fills up is refused", "silent",
     (f"{STEPS}:Steps._end", "            self._failed(error, [call for call, _ in answers])\n",
      "            self._failed(error)\n")),
    ("calls that are refused are never told",
     "what was gathered when the disk fills up is refused", "silent",
     (f"{OUTLET}:refuse",
      "    for call in calls:\n        if not call.done():\n            call.set_exception(error)\n",
      "    for call in list(calls)[:0]:\n        call.set_exception(error)\n")),
    ("calls are taken though nothing is written",
     "what is asked of the machine is refused while nothing is written", "refused",
     (f"{STEPS}:Steps.call",
      "        if self.why is not None:\n            raise refused(self.why)\n        try:\n",
      "        if self.why is not None:\n            return []\n        try:\n")),
    ("a call that could not be written down seems to have been done",
     "what is asked of the machine is refused while nothing is written", "refused",
     (f"{STEPS}:Steps.call", "        self._end(now)\n        if self.why is not None:\n",
      "        self._end(now)\n        if False:\n")),
    ("what was about to leave does so over the old links",
     "calls that wait for a sync when the disk fills up are answered by it", "early",
     (f"{HELD}:HeldOutputs._drop_links", "held._replace(release=replace(held.release, posts=(), links=None))",
      "held")),
    ("what waits for a sync leaves over the next link",
     "what waits for a sync leaves over no later link", "twice",
     (f"{HELD}:HeldOutputs._drop_posts", "if post[0] != peer]", "]")),
    ("what is in the log is refused when the disk is full",
     "calls that wait for a sync when the disk fills up are answered by it", "refused",
     (f"{STEPS}:Steps._failed", "        self._drop_links()\n",
      "        self._refuse_held(refused(error))\n        self._drop_links()\n")),
    ("rows that waited are never written",
     "a trace that cannot be written holds back what it should tell of", "silent",
     (f"{STEPS}:Steps.probe", "            self._trace.write_waiting()\n", "")),
    ("a row that was not written does not matter",
     "a trace that cannot be written holds back what it should tell of", "early",
     (f"{HELD}:HeldOutputs._release",
      "                held.appendleft(first._replace(rows=rows))\n                raise\n",
      "                pass\n")),
    ("a trace that cannot be written in trouble stops the node",
     "a trace that fills up after the disk does holds back what waits for a sync", "unheard",
     (f"{STEPS}:Steps._failed", "        if self.state is not StepState.STALLED:  # else",
      "        if True:  # else")),
    ("a link that came up in trouble is forgotten",
     "a link that came up in trouble begins anew after it", "links",
     (f"{STEPS}:Steps.link_up",
      "        self._missed_link = self._missed_link or self.state is StepState.STALLED\n", "")),
    ("a full disk is looked at once",
     "a disk that stays full is looked at until there is room", "stuck",
     (f"{ALARM}:Alarm._rings", "        self._timer, self.at = None, NEVER\n",
      "        self._timer = None\n")),
)  # fmt: skip

BROKEN = of(
    ("a failed sync is forgiven",
     "a failed sync breaks the node for good", "stop",
     (STEPS, "        if log is self.machine.log and log.broken is not None:\n", "        if False:\n")),
    ("a failed sync that is forgiven is the last one",
     "a sync that fails for a sealed segment does not keep later ones waiting", "silent",
     (f"{STEPS}:Steps.sync_failed", "self._sync_over(log, lambda: log.sync_failed(sync, why, now))",
      "log.sync_failed(sync, why, now)")),
    ("after a failed sync inside a commit a call was certainly not written",
     "a sync that fails inside a commit breaks it as well", "refused",
     (f"{STEPS}:Steps._failed", "refused(stopper(error), stalls)", "refused(stopper(error))")),
    ("a failed sync inside a commit is a full disk",
     "a sync that fails inside a commit breaks it as well", "stop",
     (f"{STEPS}:Steps._failed",
      "stalls = isinstance(error, StorageError) and (log is None or log.broken is None)",
      "stalls = isinstance(error, StorageError)")),
    ("what was asked of the machine is certainly not written after a failed sync inside its commit",
     "what is asked of the machine may be in the log when a sync fails inside its commit", "refused",
     (f"{STEPS}:Steps.call", "raise refused(self.why, self.state is StepState.STALLED)",
      "raise refused(self.why)")),
    ("calls of one that is broken are never answered",
     "a failed sync breaks the node for good", "silent",
     (f"{STEPS}:Steps.broke", "        self._refuse_held(refused(why, definite=False))\n", "")),
    ("whatever may have been written is said not to be",
     "a failed sync breaks the node for good", "refused",
     (f"{STEPS}:Steps.broke", "refused(why, definite=False)", "refused(why)")),
    ("a sync that was not tried has failed",
     "a sync that cannot be tried is tried again and nothing leaves before it", "refused",
     (f"{SYNCING}:Syncs._tried", "if self.closing or not untried(error):", "if True:")),
    ("a sync that was not tried is done",
     "a sync that cannot be tried is tried again and nothing leaves before it", "early",
     (f"{SYNCING}:Syncs._tried", "            return False\n", "            return True\n")),
    ("a sync that cannot be tried keeps a node from ending",
     "a node that ends does not wait for a sync that cannot be tried", "close",
     (f"{SYNCING}:Syncs._tried", "if self.closing or not untried(error):", "if not untried(error):")),
    ("after a bug it goes on from its disk",
     "a bug in broadcast stops the node and refuses all calls", "lost",
     (f"{STEPS}:Steps._failed",
      "            self.broke(error)\n            return\n        assert isinstance",
      "            error = StorageError(str(error))\n        assert isinstance")),
    ("a bug in a packet is passed over",
     "a bug in receive stops the node and refuses all calls", "lost",
     (f"{STEPS}:Steps.receive", "            self._failed(error)\n            return\n"
      "        self._end(now)\n        if garbage",
      "            return\n        self._end(now)\n        if garbage")),
    ("a bug in a timer reaches the loop",
     "a bug in wake stops the node and refuses all calls", "lost",
     (f"{STEPS}:Steps.wake",
      "            self._failed(error)\n            return\n        if now >= self.calls.queue.wake_at:",
      "            raise\n        if now >= self.calls.queue.wake_at:")),
)  # fmt: skip

ENDING = of(
    ("closing forgets what was asked for last",
     "closing writes and syncs and answers what was asked for", "refused",
     (f"{DRIVER}:Driver.close", "        self.settle()\n", "")),
    ("one that closes in trouble says that all went well",
     "closing in trouble leaves no call unanswered", "close",
     (f"{STEPS}:Steps.close", "        return well\n", "        return True\n")),
    ("one that closes leaves its alarm set",
     "closing writes and syncs and answers what was asked for", "close",
     (f"{DRIVER}:Driver.close", "        self._alarm.close()\n", "")),
    ("one that closes in trouble goes on looking for room",
     "closing with a full disk says that it was not in order", "close",
     (f"{DRIVER}:Driver.close", "        self._probing.close()\n", "")),
    ("one that is closed takes calls",
     "closing writes and syncs and answers what was asked for", "silent",
     (f"{STEPS}:Steps.close", "        self.why = self.why or StorageError(\"this node is closed\")\n", "")),
)  # fmt: skip

MUTANTS = ORDER + FULL + BROKEN + ENDING
