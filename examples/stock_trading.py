"""Why an application needs happens-before: theoretical prices of an option (section 3.4.1).

The exchange broadcasts option prices. A pricer computes a theoretical price from each and broadcasts
that. A monitor shows the theoretical price, but only while it belongs to the latest option price. Causal
delivery alone cannot tell: a theoretical price delivered after a newer option price may have been
computed from it, or from the one before. The tags know.
"""

from thence.core.tag import Tag
from thence.sim.by_hand import ByHand

group = ByHand("exchange", "pricer", "monitor")
latest: Tag | None = None


def show(sender: str) -> None:
    """Bring what `sender` has sent to the monitor's screen."""
    global latest
    for delivered in group.carry(sender, "monitor"):
        kind, price = delivered.message.payload.decode().split()
        assert delivered.tag is not None
        if kind == "option":
            latest = delivered.tag
            print(f"option price {price}")
        elif latest is not None and latest.before(delivered.tag):
            print(f"    theoretical price {price}")
        else:
            print(f"    theoretical price {price} is obsolete: it is concurrent with the option price shown")


group.send("exchange", "option 25.5")
group.carry("exchange", "pricer")
group.send("pricer", "theoretical 25.75")
show("exchange")
show("pricer")

group.send("exchange", "option 26.0")
group.carry("exchange", "pricer")
group.send("pricer", "theoretical 26.25")  # computed from 26.0 …
group.send("exchange", "option 26.5")  # … while the price moves on
show("exchange")
show("pricer")
