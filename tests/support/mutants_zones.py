"""Bugs planted into processes of a topology; each names the story in `sim/test_zones_live.py` finding it."""

from support.mutants_groups import GroupMutant, of

GATEWAY = "thence.order.separator:GatewayOrderer"
TOPOLOGY = "thence.order.topology:Topology"
SIM = "thence.sim.zoned:SimZones"
CORE = "thence.replica.zone_core:ZoneCore"
TALK = "thence.replica.zone_talk:ZoneTalk"
ZONE = "thence.replica.zone:ZoneMachine"
WATCH = "thence.replica.zone_watch:ZoneWatch"

MUTANTS: list[GroupMutant] = [
    of("nothing is passed on of the dead", "what_a_dead_gateway_had_sent_is_passed_on_to_those_that_lack_it",
       (f"{CORE}.passes", "found += [(peer, data) for peer in address if peer in self.streams]", "pass")),
    of("what others have of the dead is not waited for",
       "a_witness_forwards_only_what_the_dead_gateway_had_not",
       (f"{CORE}._flush", "            if all(", "            if True or all(")),
    of("a hop overtakes one that no other process has", "no_process_waits_for_what_only_a_dead_one_had",
       (f"{CORE}.before", "                return counter\n", "                return None\n")),
    of("items are sent from one too early on",
       "a_gateway_that_is_started_again_in_time_goes_on_with_its_disk",
       (f"{TALK}.greeted", "session.next = hello.have + 1", "session.next = max(1, hello.have)")),
    of("a restart believes its log", "a_process_whose_disk_was_lost_ends_and_says_why",
       (f"{TALK}.greeted", "if hello.have > stream.sent:", "if False:")),
    of("what was let go is not looked for", "a_disk_that_was_put_back_is_found_before_anything_is_sent",
       (f"{TALK}.greeted", "if hello.kept > stream.have + 1:", "if False:"),
       (f"{TALK}.greeted", "if hello.have > stream.sent:", "if False:")),
    of("one answer is enough for a death", "a_gateway_with_a_link_is_not_closed",
       (f"{WATCH}.answered", "question.lost >= others", "True")),
    of("who has heard of a death keeps it to itself",
       "a_witness_takes_over_when_the_active_gateway_dies_under_load",
       (f"{ZONE}._follow", "                    self._close(who)\n", "                    pass\n")),
    of("one that was closed is not told", "a_gateway_that_comes_back_after_its_death_is_told_and_ends",
       (f"{ZONE}.link_up", "            self.talk.post(index, ZoneGone(index))\n", "")),
    of("room is taken note of when items are", "what_a_neighbour_says_of_its_room_is_taken_when_it_is_said",
       (f"{ZONE}.receive",
        "                self._items(index, session, packet, now)\n            talk.acked(index, packet)\n",
        "                self._items(index, session, packet, now)\n    "
        "            talk.acked(index, packet)\n"),
       (f"{ZONE}._go_on", "                self._items(peer, session, packet, now)\n",
        "                self._items(peer, session, packet, now)\n"
        "                self.talk.acked(peer, packet)\n")),
    of("words take packets of their own", "words_travel_with_messages_and_say_what_is_news",
       (f"{TALK}._post_items", "word = self._word(session, now)", "word = ()"),
       (f"{TALK}._tell", "word = self._word(session, now)", "word = ()")),
    of("a word says all that was ever delivered", "words_travel_with_messages_and_say_what_is_news",
       (f"{TALK}._word", "                worded[sender] = counter\n", "")),
    of("nothing is said to one that is not written to", "one_to_which_nothing_goes_gets_a_word_by_itself",
       (f"{TALK}.say_words", "                self.post(peer, ZoneWord(word))\n", "                pass\n")),
    of("words are not listened to", "one_to_which_nothing_goes_gets_a_word_by_itself",
       (f"{ZONE}._heard", "            self._life.happens(ZoneHeard(peer, hops))\n", "            pass\n")),
    of("a gateway looks exposed while its witness has not answered",
       "what_others_could_wait_for_is_told_and_nothing_else",
       (f"{TALK}.exposed", "            if peer not in peers\n", "")),
    of("what left before a restart is forgotten", "what_others_could_wait_for_is_told_and_nothing_else",
       (f"{TALK}._left", "max(let, stream.reached)", "let")),
    of("before a link greets nothing has left for it", "what_others_could_wait_for_is_told_and_nothing_else",
       (f"{TALK}._left", "stream.newest_hop if let is None", "0 if let is None")),
    of("each operation of a turn is a hop",
       "what_a_turn_sends_to_the_same_processes_is_one_message",
       (f"{ZONE}.broadcast", "for run in in_runs(each, most):", "for run in [[one] for one in each]:")),
    of("a gateway passes a run on as one operation",
       "what_a_turn_sends_to_the_same_processes_is_one_message",
       (f"{GATEWAY}._work", "message.dest, message.span)", "message.dest)")),
    of("what is for others comes after a turn's run", "messages_to_others_come_between_those_of_a_turn",
       (f"{ZONE}.broadcast", "groupby(payloads, _to)", "groupby(sorted(payloads, key=_to), _to)")),
    of("a run waits for the program as one message", "a_run_is_taken_whole_and_counts_as_what_it_holds",
       (f"{CORE}._release", "self.waiting += effect.span", "self.waiting += 1"),
       (f"{CORE}.took", "self.waiting -= message.span", "self.waiting -= 1")),
    of("a run is believed to hold what it says",
       "a_run_that_holds_something_else_than_it_says_costs_the_link",
       (f"{CORE}.parse", "len(payload_run(message.payload)) != message.span", "False")),
    of("what waits for a neighbour has no bound in bytes",
       "what_waits_for_a_neighbour_is_bounded_in_bytes",
       (f"{ZONE}.refuses", " or stream.bytes >= most_bytes", "")),
]  # fmt: skip

JOINS: list[GroupMutant] = [
    of("a newcomer forwards what was forwarded before", "one_that_joined_forwards_when_it_is_the_last",
       (f"{GATEWAY}.begin", "if all(dot in other for other in others)", "if True")),
    of("hops from before a join count as sent to the newcomer", "joins_over_bad_links_and_with_late_clients",
       (f"{TOPOLOGY}.address", "self._unknown(sender, counter)", "self._unknown(sender, LAST)")),
    of("a newcomer is never adopted", "one_that_joined_forwards_when_it_is_the_last",
       (f"{SIM}._adopts", "        self.topology.adopts(node, joiner, nodes[node].history.counter)\n", "")),
    of("a member of which only a newcomer is left may die", "joins_over_bad_links_and_with_late_clients",
       (f"{SIM}.die", "if self._is_covered(node):", "if True:")),
]  # fmt: skip
