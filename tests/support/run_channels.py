"""Random small runs with channels. Most hold violations of every kind: those who judge must agree on them."""

from random import Random

from thence.trace.schema import Dot, Event

STEPS = ("send", "send", "deliver", "deliver", "deliver", "subscribe", "unsubscribe", "install", "restart")


def channel_run(rng: Random, run: str, group: str = "") -> list[Event]:
    """Nodes send to channels and to all, deliver mostly what they lack, join with states and leave."""
    names = [f"n{k}" for k in range(rng.randint(2, 5))]
    channels = [f"c{k}" for k in range(rng.randint(1, 3))]
    careful = rng.random() < 0.6
    rows: list[Event] = []
    sent: list[Dot] = []
    counters = dict.fromkeys(names, 0)
    positions = dict.fromkeys(names, 0)
    got: dict[str, set[Dot]] = {name: set() for name in names}

    def write(
        name: str, kind: str, dot: Dot | None = None, deps: list[Dot] | None = None, to: str = ""
    ) -> None:
        positions[name] += rng.randint(1, 2)
        origin, seq = (dot.origin, dot.seq) if dot else (None, None)
        rows.append(
            Event(
                run=run, group=group, node=name, pos=positions[name], kind=kind, origin=origin, seq=seq,
                deps=deps, channel=to or None,
            )
        )  # fmt: skip

    for name in names:
        for channel in channels:
            if rng.random() < 0.6:
                write(name, "subscribe", to=channel)
    for _ in range(rng.randint(5, 40)):
        name, kind, channel = rng.choice(names), rng.choice(STEPS), rng.choice(channels)
        if kind == "send":
            counters[name] += 1
            dot = Dot(name, counters[name])
            sent.append(dot)
            got[name].add(dot)
            write(name, kind, dot, to=channel if rng.random() < 0.8 else "")
        elif kind == "deliver" and sent:
            fresh = [dot for dot in sent if dot not in got[name]]
            if fresh and (careful or rng.random() < 0.8):
                dot = fresh[0] if careful or rng.random() < 0.5 else rng.choice(fresh)
            else:
                dot = rng.choice(sent)
            got[name].add(dot)
            write(name, kind, dot)
        elif kind == "unsubscribe":
            write(name, kind, to=channel)
            got[name] = {dot for dot in got[name] if rng.random() < 0.5}
        elif kind in ("subscribe", "install", "restart") and (kind == "subscribe" or rng.random() < 0.3):
            known = sent + [Dot(name, 9)] * (rng.random() < 0.1)
            deps = rng.sample(known, rng.randint(0, min(3, len(known))))
            write(name, kind, deps=deps, to=channel if kind == "subscribe" else "")
    for name in names:
        if rng.random() < 0.2:
            write(name, rng.choice(("leave", "crash")))
    return rows
