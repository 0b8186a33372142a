"""The log as a state machine: Hypothesis chooses the steps, a list says what must be in it.

Every rule leaves log and list side by side; the invariant compares them. Whatever fails here is first
made a story of its own, as a check of the kit.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.conformance_oplog import ALL_SETTINGS
from support.oplog_model import FAILING, Model

from thence.core.storage import DiskError
from thence.oplog.log import OpLog
from thence.sim.disk import Operation


class LogMachine(RuleBasedStateMachine):
    model: Model
    holes: bool

    @initialize(
        seed=st.integers(0, 1 << 16), chosen=st.integers(0, len(ALL_SETTINGS) - 1), holes=st.booleans()
    )
    def begin(self, seed: int, chosen: int, holes: bool) -> None:
        self.model = Model(OpLog, seed, ALL_SETTINGS[chosen])
        self.holes = holes

    @rule(origins=st.lists(st.integers(0, 7), min_size=1, max_size=8), length=st.integers(0, 200))
    def append(self, origins: list[int], length: int) -> None:
        for origin in origins:
            self.model.append(origin, length)

    @rule()
    def commit(self) -> None:
        self.model.commit()

    @rule()
    def sync(self) -> None:
        """Everything at once, whatever the policy."""
        model = self.model
        if model.commit():
            try:
                model.log.sync(model.now)
            except DiskError:
                return
            model.durable = model.log.durable
            assert model.durable == model.log.tail

    @rule(us=st.integers(1, 12_000))
    def time_passes(self, us: int) -> None:
        self.model.tick(us)

    @rule(what=st.sampled_from(("stable", "taken", "all", "note")))
    def mark(self, what: str) -> None:
        self.model.commit()
        self.model.mark(what)

    @rule()
    def power_cut(self) -> None:
        self.model.crash(self.holes)

    @rule()
    def process_killed(self) -> None:
        self.model.kill()

    @rule(install=st.booleans())
    def snapshot(self, install: bool) -> None:
        self.model.snapshot(install)

    @rule()
    def begin_to_write_a_snapshot(self) -> None:
        self.model.begin_draft()

    @rule()
    def go_on_with_it(self) -> None:
        self.model.go_on_with_draft()

    @rule()
    def collect(self) -> None:
        self.model.collect()

    @rule(operation=st.sampled_from(FAILING), after=st.integers(0, 3))
    def something_will_fail(self, operation: Operation, after: int) -> None:
        self.model.disk.fail(operation, after)

    @rule(room=st.integers(0, 400))
    def disk_fills_up(self, room: int) -> None:
        disk = self.model.disk
        disk.capacity = room + sum([disk.size(name) for name in disk.names()])

    @rule()
    def disk_has_room(self) -> None:
        self.model.disk.capacity = None

    @invariant()
    def log_is_as_the_list_says(self) -> None:
        if hasattr(self, "model"):
            self.model.check()


LogMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLog = LogMachine.TestCase
