"""Bugs planted into live nodes. Those of the order of a step are in `mutants_steps`.

Each names the test that must find it, by file and function: it is run as it stands, in a project with the bug
in it (`mutants_groups.planted`); one for groups of either kind is run for both, unless the bug is in a part
that one of them has. `finds` is how the test fails: an assertion, `Failed` (something was not refused),
`TimeoutError` (something that must happen does not) or another error's type.
"""

from dataclasses import dataclass

from support.mutants import Edit

STEPS = "thence.replica.steps"
GROUP = "thence.replica.group.process.node"
VICINITY = "thence.replica.group.channel.vicinity"
DRIVER = "thence.runtime.driver"
DIARIES = "thence.runtime.trace_files"
SHELF = "thence.runtime.incarnations"
CHANGING = "thence.runtime.changing"
NEIGHBOURS = "thence.runtime.group_neighbours"
LINKS = "thence.runtime.open_links"
ALL_LINKS = "thence.runtime.links"
NODE = "thence.runtime.node"
WAY_IN = "thence.runtime.bootstrap"
DRAINING = "thence.runtime.draining"
EASING = "thence.runtime.backpressure"
APPLICATION = "thence.runtime.application"
READER = "thence.runtime.reader"
PROGRAM = "thence.runtime.program"
HAPPENED = "thence.runtime.happened"
HOME = "thence.runtime.home"
FOLDER = "thence.runtime.folder"
WAITING = "thence.runtime.waiting"
HANDSHAKE = "thence.runtime.handshake"
USER_SECRET = "thence.runtime.user_secret"
CONTROL = "thence.runtime.control"
HTTP = "thence.runtime.http"


@dataclass(frozen=True, slots=True)
class LiveMutant:
    name: str
    file: str
    test: str
    finds: str
    edits: tuple[Edit, ...]


def of(file: str, *mutants: tuple[str, str, str, *tuple[Edit, ...]]) -> list[LiveMutant]:
    return [
        LiveMutant(name, file, f"test_{test}", finds, tuple(edits)) for name, test, finds, *edits in mutants
    ]


BUGS = of(
    "test_bugs.py",
    (
        "a bug of links goes to the event loop",
        "a_bug_in_the_bookkeeping_of_links_stops_the_node_which_says_why",
        "AssertionError",
        (
            f"{ALL_LINKS}:Links._will_tell",
            "call_soon(self._safely, self._tell_downs)",
            "call_soon(self._tell_downs)",
        ),
    ),
    (
        "a changing group's node passes over a bug of its links",
        "a_bug_in_the_bookkeeping_of_links_stops_the_node_which_says_why",
        "TimeoutError",
        (f"{NEIGHBOURS}:Neighbours.link_bug", "            self.driver.stops(error)\n", "            pass\n"),
    ),
    (
        "a bug costs no more than a link",
        "a_bug_stops_the_node_and_is_told_to_all_who_wait_and_a_restart_lacks_nothing",
        "TimeoutError",
        (
            f"{STEPS}:Steps.receive",
            "            self._failed(error)\n            return\n        self._end(now)\n        if garbage",
            "            raise PeerError(str(error)) from error\n        self._end(now)\n        if garbage",
        ),
    ),
    (
        "a bug is passed over",
        "a_bug_stops_the_node_and_is_told_to_all_who_wait_and_a_restart_lacks_nothing",
        "TimeoutError",
        (
            f"{STEPS}:Steps.receive",
            "            self._failed(error)\n            return\n        self._end(now)\n        if garbage",
            "            return\n        self._end(now)\n        if garbage",
        ),
    ),
)

MISTAKES = of(
    "test_mistakes.py",
    ("a cancelled broadcast is sent all the same",
     "a_broadcast_cancelled_before_the_loop_comes_round_never_was", "AssertionError",
     (f"{DRIVER}:Driver.__init__", "        steps.calls.given_up = methodcaller(\"done\")\n", "")),
    ("broadcasts never wait",
     "beyond_a_bound_broadcasts_wait_for_their_turn_and_each_gets_its_own_tag", "AssertionError",
     (f"{APPLICATION}:OpenNode.__init__", "Turns(settings.application.broadcasts_max)", "Turns(1 << 30)")),
    ("one that has waited for its turn need not be open any more",
     "a_broadcast_that_waits_for_its_turn_is_told_when_the_node_is_closed", "Failed",
     (f"{APPLICATION}:OpenNode.broadcast",
      "        async with self._turns:\n            self.must_be_open()\n",
      "        async with self._turns:\n")),
    ("a node that is closed twice is taken apart twice",
     "a_broadcast_that_waits_for_its_turn_is_told_when_the_node_is_closed", "InvariantError",
     (f"{NODE}:Node.close", "        if self._released:\n            return\n", "")),
    ("whatever may have been written is said not to be",
     "after_a_failed_sync_a_broadcast_may_have_been_sent_and_says_so", "AssertionError",
     (f"{STEPS}:Steps.broke", "refused(why, definite=False)", "refused(why)")),
    ("a node may be called from any loop",
     "another_thread_or_loop_is_told_how_to_call_and_that_works", "Failed",
     (f"{HOME}:Home.check",
      "if get_ident() != self.thread or not self._loop.is_running():", "if self.left:")),
    ("a forked process goes on as the node",
     "a_forked_process_neither_writes_nor_speaks_nor_holds_the_folder", "AssertionError",
     (f"{DRIVER}:Driver.forked",
      "        self.steps.state, self.steps.why = StepState.BROKEN, StorageError(FORKED)\n",
      "        pass\n")),
    ("a forked process keeps the folder",
     "a_forked_process_neither_writes_nor_speaks_nor_holds_the_folder", "UsageError",
     (f"{FOLDER}:DataFolder.forked", "        if self._lock >= 0:\n            os.close(self._lock)\n",
      "        if False:\n")),
    ("there may be any number of readers",
     "a_second_reader_is_refused_and_the_first_goes_on", "Failed",
     (f"{APPLICATION}:OpenNode.events", "if reader is not None and not reader.ended:", "if False:")),
    ("what a cancelled reader took is told before it is synced",
     "a_reader_that_was_cancelled_while_it_took_a_message_hands_it_out_once_and_not_before_it_is_synced",
     "Failed",
     (f"{STEPS}:Steps._end", "release = Release(posts, links, events, answers)\n",
      "release = Release(posts, links, (), answers)\n"
      "            self.effects.append(Release((), None, events, ()))\n")),
    ("what a program's callback raises is taken for an error of the middleware",
     "a_program_that_cannot_apply_its_own_operation_stops_its_node_and_gets_it_again", "InvariantError",
     ("thence.runtime.replicated:raised", "    return ApplicationError(",
      "    return error or ApplicationError(")),
    ("unread events are all kept",
     "unread_events_take_bounded_memory_and_the_last_of_each_kind_is_told", "AssertionError",
     (f"{HAPPENED}:Happened.extend",
      "        self._events.extend(events)\n        if len(self._events) > self._limit:\n",
      "        self._events.extend(events)\n        if False:\n")),
) + of(
    "test_waiting.py",
    ("a turn of one that is cancelled is lost",
     "a_turn_of_one_that_is_cancelled_goes_to_the_next", "TimeoutError",
     (f"{WAITING}:Turns.__aenter__", "            if not turn.cancelled():  # it was",
      "            if False:  # it was")),
    ("the first of several that say the same remains",
     "of_many_events_that_wait_the_last_of_each_key_remains_in_order", "AssertionError",
     (f"{HAPPENED}:Happened._shorten", "in reversed(self._events):", "in self._events:")),
)  # fmt: skip

REPEATED = of(
    "test_application.py",
    ("what was taken and not read comes again after its repetition",
     "a_position_amid_what_was_taken_at_once_goes_on_after_it_and_nothing_comes_twice", "AssertionError",
     (f"{APPLICATION}:OpenNode.events", "            self._program.repeat()\n", "")),
    ("what is repeated does not wait for its sync",
     "what_was_taken_is_not_repeated_before_it_is_synced", "AssertionError",
     (f"{PROGRAM}:Program.repeat", "        self.repeats = self._out\n", "")),
    ("a repetition waits for a broken node",
     "a_repetition_goes_on_from_a_log_that_was_opened_again_and_ends_with_the_node", "TimeoutError",
     (f"{READER}:Events._next", "                    if driver.trouble is not None:\n"
      "                        break\n",
      "")),
)  # fmt: skip

TRACES = of(
    "test_trace_writers.py",
    ("a torn row counts as told",
     "what_a_crash_cut_off_is_told_from_the_log_and_nothing_twice", "TraceError",
     (f"{DIARIES}:told", "                    if line.endswith(b\"\\n\"):", "                    if True:")),
    ("what earlier boots told is told again",
     "what_a_crash_cut_off_is_told_from_the_log_and_nothing_twice", "AssertionError",
     (f"{DIARIES}:TraceWriter.row",
      "            if not news:\n                return\n", "")),
    ("what was taken back counts as told",
     "a_step_that_was_not_committed_leaves_no_row_and_may_be_told_again", "AssertionError",
     (f"{DIARIES}:TraceWriter.take_back",
      "            if before is None:\n                del self._told[key]\n            else:\n"
      "                self._told[key] = before\n",
      "            pass\n")),
    ("a trace begins in the middle",
     "a_trace_that_begins_late_begins_with_a_restart", "AssertionError",
     (f"{DIARIES}:TraceWriter.__init__", "self._mute = not self._told\n        \"\"\"Nothing",
      "self._mute = False\n        \"\"\"Nothing")),
    ("a file does not say whose life it tells of",
     "the_first_row_of_each_file_says_which_process_and_incarnation_it_is", "AssertionError",
     (f"{DIARIES}:TraceWriter.take", ".encode() + data[1:]\n", ".encode()[:0] + data\n")),
    ("what is sent again goes untold",
     "the_first_row_of_each_file_says_which_process_and_incarnation_it_is", "AssertionError",
     (f"{DIARIES}:TraceWriter.row", "        if carries:\n", "        if carries and deps:\n")),
    ("an incarnation is told to have taken over one state",
     "each_state_that_brings_something_new_is_told_and_none_twice", "AssertionError",
     (f"{DIARIES}:_subjects", "return (about, *deps) if kind == INSTALL and deps else (about,)",
      "return (about,)")),
    ("a lost incarnation is not buried",
     "incarnations_that_do_not_run_are_ended_once", "AssertionError",
     (f"{DIARIES}:TraceWriters.end_others",
      "                self._diaries[member].row(CRASH, None, None, now)\n",
      "")),
    ("the one that runs is buried as well",
     "incarnations_that_do_not_run_are_ended_once", "AssertionError",
     (f"{DIARIES}:TraceWriters.end_others", "if member != running and not has_ended", "if not has_ended")),
    ("who lost its disk writes into a file of an earlier boot",
     "who_lost_its_disk_ends_its_former_incarnations_though_it_counts_boots_from_the_beginning", "UsageError",
     (f"{DIARIES}:TraceWriters.end_others", "boot = max(self._boot, last_boot(self._folder, member) + 1)",
      "boot = self._boot")),
)  # fmt: skip

DISK = of(
    "test_incarnations.py",
    ("a number is reserved in memory alone",
     "numbers_boots_and_contacts_are_kept", "AssertionError",
     (f"{SHELF}:IncarnationStore.reserve", "        self._written.since = since\n        self._write()\n",
      "        self._written.since = since\n"),
     (f"{SHELF}:IncarnationStore.keep_contacts",
      "            if first:\n                self._write()\n", "")),
    ("attempts that came to nothing are forgotten by the next start",
     "attempts_that_came_to_nothing_are_known_after_a_restart", "AssertionError",
     (f"{SHELF}:IncarnationStore.reserve", "        self._written.since = since\n        self._write()\n",
      "        self._write()\n")),
    ("an incarnation is over in memory alone",
     "attempts_that_came_to_nothing_are_known_after_a_restart", "AssertionError",
     (f"{SHELF}:IncarnationStore.ended", "        self.catch_up()\n        self.drop(number)\n",
      "        self.drop(number)\n")),
    ("what could not be written down is not tried again",
     "a_former_member_is_on_disk_as_that_before_its_log_goes", "AssertionError",
     (f"{SHELF}:IncarnationStore._write",
      "        _put(self._root, self._written)\n        self._behind = False\n",
      "        self._behind = False\n        _put(self._root, self._written)\n")),
    ("that something may be missing is forgotten by the next start",
     "that_something_may_be_forgotten_outlives_further_crashes_until_it_does_not_matter", "AssertionError",
     (f"{SHELF}:IncarnationStore._move", "        if self.stage is FolderStage.IN_USE:\n",
      "        if self.stage is not FolderStage.CLOSED:\n")),
    ("one that closes in order forgets that something was missing",
     "that_something_may_be_forgotten_outlives_further_crashes_until_it_does_not_matter", "InvariantError",
     (f"{SHELF}:IncarnationStore.close", "if self.stage in (FolderStage.IN_USE, FolderStage.INTERRUPTED):",
      "if self.stage is not FolderStage.LEFT:")),
    ("the first contacts wait for company",
     "the_first_contacts_are_on_disk_at_once_and_others_when_there_is_time", "AssertionError",
     (f"{SHELF}:IncarnationStore.keep_contacts",
      "            if first:\n                self._write()\n", "")),
    ("half of a dropped log may be taken for a whole one",
     "a_log_that_was_dropped_is_gone_and_what_a_crash_left_of_one_as_well", "AssertionError",
     (f"{SHELF}:IncarnationStore.drop", "            path.rename(aside)\n", "")),
)  # fmt: skip

LINKED = of(
    "test_open_links.py",
    ("a guest is kept for ever",
     "a_joiner_dials_at_once_whatever_its_name_and_is_a_guest", "AssertionError",
     (f"{LINKS}:OpenLinks._link_down",
      "        self._forget(peer)\n", "        pass\n")),
    ("links begin anew only where there is no guest",
     "links_begin_anew_also_if_guests_are_among_them", "UsageError",
     (f"{LINKS}:OpenLinks.linked", "    def linked(self, name: str)",
      "    def begin_anew(self):\n        for name in self.status():\n            Links.cut(self, name)\n"
      "            self.remove_peer(name)\n            self.mend(name)\n\n"
      "    def linked(self, name: str)")),
    ("both dial at once",
     "of_two_that_know_each_other_the_smaller_name_dials", "AssertionError",
     (f"{LINKS}:OpenLinks._dial_after", "            delay_us += PATIENCE_US\n",
      "            delay_us += 1\n")),
    ("who is not needed any more loses its link",
     "who_is_not_needed_any_more_keeps_its_link_until_it_closes_it", "AssertionError",
     (f"{LINKS}:OpenLinks._forget", "peer.link or ", "")),
    ("one that is cut comes back",
     "one_that_is_cut_on_request_is_not_let_in_until_it_is_mended", "TimeoutError",
     (f"{LINKS}:OpenLinks._expects", "        if peer is not None and peer.cut:\n"
      "            raise RefusalError(\"cut on request\", told=None)\n",
      ""),
     (f"{LINKS}:OpenLinks._welcome", "        return super()._welcome(name, connection)\n",
      "        self._peers[name].cut and self._peers[name].mended()\n"
      "        return super()._welcome(name, connection)\n")),
    ("a twin is let in",
     "another_one_of_the_own_name_is_refused", "Failed",
     (f"{LINKS}:OpenLinks._expects", "        if name == self._me.name:\n", "        if not name:\n")),
)  # fmt: skip

NEAR = of(
    "test_neighbours.py",
    ("a copy of a data folder is let in",
     "copies_twins_and_joiners_while_nothing_can_be_written_are_not_let_in", "AssertionError",
     (f"{NEIGHBOURS}:Neighbours.admit", "if log_id == peer.log_id and peer.boot < boot and ",
      "if False and ")),
    ("another node of the same name is let in",
     "copies_twins_and_joiners_while_nothing_can_be_written_are_not_let_in", "AssertionError",
     (f"{NEIGHBOURS}:Neighbours.admit", "if log_id != peer.log_id and self.links.linked(peer.name):",
      "if False:")),
    ("peers are let in though nothing is written",
     "copies_twins_and_joiners_while_nothing_can_be_written_are_not_let_in", "AssertionError",
     (f"{NEIGHBOURS}:Neighbours.admit", "        if driver.trouble is not None:\n", "        if False:\n")),
    ("one that lost its disk may take a number again",
     "a_member_tells_who_is_there_and_the_highest_number_of_the_one_that_asks", "AssertionError",
     (f"{NEIGHBOURS}:Neighbours._answer", "return put_answer(Open(tuple(members), highest))",
      "return put_answer(Open(tuple(members), 0))")),
    ("one that leaves lets others in",
     "one_that_leaves_is_no_way_into_the_group_any_more", "AssertionError",
     (f"{NEIGHBOURS}:Neighbours._answer", "        if member is None or member.view.leaving:\n",
      "        if member is None:\n")),
    ("one that answers is evicted unasked",
     "one_that_answers_is_evicted_by_force_alone_and_returns", "Failed",
     (f"{CHANGING}:Changing._check_evictable", "        if not force and self.links is not None and",
      "        if False and")),
    ("a name that is being looked up outlives its node",
     "a_name_that_is_being_looked_up_does_not_outlive_the_node", "AssertionError",
     (f"{CHANGING}:Changing.unlink", "            await self.neighbours.close()\n",
      "            await self.neighbours.links.close()\n")),
    ("whom a member let in is not written down",
     "that_a_joiner_was_let_in_is_on_disk_before_the_others_see_it", "AssertionError",
     (f"{VICINITY}:Vicinity.relink", "        self._shelf.keep_contacts(contacts)\n", "")),
)  # fmt: skip

ASKING = of(
    "test_open_changing.py",
    ("the last one leaves though a member may come back",
     "the_last_one_does_not_leave_while_a_member_may_come_back_unless_it_is_forced", "TimeoutError",
     (f"{CHANGING}:Changing.leave", "            if missing:\n", "            if False:\n")),
    ("a process that is no member is evicted",
     "what_makes_no_sense_is_refused_with_a_reason", "AssertionError",
     (f"{CHANGING}:Changing._check_evictable", "        if process not in there:\n", "        if False:\n")),
    ("what no record holds is sent",
     "many_large_messages_at_once_travel_in_frames_that_links_take", "AssertionError",
     (f"{GROUP}:GroupNode.broadcast", "            must_fit(payloads, self._payload_max)\n",
      "            pass\n")),
    ("of a step's packets to one process the last one leaves",
     "many_large_messages_at_once_travel_in_frames_that_links_take", "TimeoutError",
     ("thence.runtime.outlet:send_each", "            by_peer[peer].append(data)\n",
      "            by_peer[peer] = [data]\n")),
    ("one that has left goes on",
     "one_that_leaves_is_gone_for_the_others_and_can_send_no_more", "TimeoutError",
     (f"{CHANGING}:Changing._has_left", "        node.stopping.set()\n", "")),
    ("a leave in disorder seems to be one in order",
     "the_last_one_leaves_by_force", "AssertionError",
     (f"{CHANGING}:Changing._has_left", "        node.unclean = unclean\n",
      "        node.unclean = False\n")),
)  # fmt: skip

RETURNING = of(
    "test_changing_disk.py",
    ("one that forgot something goes on as whom it was",
     "one_that_lost_the_end_of_its_log_comes_back_as_another_and_nothing_is_sent_twice", "AssertionError",
     (f"{WAY_IN}:Bootstrap.recalled", "        if shelf.forgetful and not shelf.contacts:\n",
      "        if shelf.forgetful:\n")),
    ("after the loss of a disk numbers go on from what one side knows",
     "one_that_lost_its_whole_disk_joins_with_a_number_that_no_side_of_a_split_can_know", "AssertionError",
     (f"{WAY_IN}:Bootstrap.find", "shelf.reserve(max(found.highest, number_of_now(self._clock)))",
      "shelf.reserve(found.highest)")),
    ("a damaged log of one that is alone is cut unasked",
     "a_damaged_log_of_one_that_is_alone_is_for_people_to_cut", "AssertionError",
     (f"{WAY_IN}:Bootstrap.recalled",
      "                if not shelf.contacts:\n", "                if False:\n")),
)  # fmt: skip

ENDING = of(
    "test_draining.py",
    ("a node ends before all have what it sent", "it_waits_until_everything_is_sent", "AssertionError",
     (f"{DRAINING}:drained", "while not is_sent() or loop.time()", "while is_sent() and loop.time()")),
    ("a node ends while messages arrive", "it_waits_until_nothing_more_comes", "AssertionError",
     (f"{DRAINING}:drained", "while not is_sent() or loop.time() - since < QUIET_S:",
      "while not is_sent():")),
    ("a node that cannot send never ends", "it_does_not_wait_longer_than_it_may", "TimeoutError",
     (f"{DRAINING}:drained", "asyncio.timeout(limit_us / 1e6)", "asyncio.timeout(None)")),
) + of(
    "test_backpressure.py",
    ("a slow neighbour is fed on", "one_that_takes_too_little_is_held_until_its_line_would_run_dry",
     "AssertionError", (f"{EASING}:LinkBackpressure.sent",
     "            self._driver.machine.hold(peer)\n", "")),
    ("one that was held stays so", "one_that_takes_too_little_is_held_until_its_line_would_run_dry",
     "TimeoutError",
     (f"{EASING}:LinkBackpressure.sent",
      "            self._held[peer] = None\n            self._look_later()\n",
      "            self._held[peer] = None\n")),
    ("a good line is held", "one_that_keeps_up_is_never_held", "AssertionError",
     (f"{EASING}:LinkBackpressure.sent", "self._queued(peer) > MUCH_BYTES", "self._queued(peer) >= 0")),
)  # fmt: skip

FOLDERS = of(
    "test_folder.py",
    ("a text for tests hides that the machine was switched off",
     "tests_run_under_a_boot_of_their_own_and_no_power_cut_is_hidden", "AssertionError",
     (f"{FOLDER}:machine_id", "blake2b(boot + apart.encode()", "blake2b(apart.encode()")),
)  # fmt: skip

DOORS = of(
    "test_handshake.py",
    ("an opener believes credentials without a proof",
     "nor_does_an_opener_believe_credentials_without_their_proof", "Failed",
     (f"{HANDSHAKE}:Opener._ready",
      '_check(reader, self._secret, b"ready", *self._said, frame[:-PROOF_BYTES])',
      "reader.take_bytes(PROOF_BYTES)")),
    ("an acceptor tells what it is known by to all who know the secret",
     "an_acceptor_tells_none_to_one_that_it_does_not_let_in", "Failed",
     (f"{HANDSHAKE}:Acceptor.take", "reason = self._judge.admit(peer, self._host)", "reason = None")),
) + of(
    "test_crowds.py",
    ("guests that shake hands at once are not counted",
     "guests_that_shake_hands_at_the_same_time_are_counted_too", "TimeoutError",
     (f"{LINKS}:OpenLinks._welcome", "full = self._make_room(connection.host)", "full = None")),
    ("members count as guests", "members_do_not_count_and_come_in_however_many_guests_there_are",
     "AssertionError",
     (f"{LINKS}:OpenLinks._make_room", "if peer.link is not None and not peer.dials]",
      "if peer.link is not None]")),
    ("a guest that speaks gives way",
     "the_guest_that_has_been_silent_for_longest_gives_way_but_none_that_speaks", "Failed",
     (f"{LINKS}:OpenLinks._make_room", "self._clock() - idle.heard_us >= self._settings.silence_us", "True")),
    ("the newest guest gives way",
     "the_guest_that_has_been_silent_for_longest_gives_way_but_none_that_speaks", "TimeoutError",
     (f"{LINKS}:OpenLinks._make_room", "idle = min(crowd,", "idle = max(crowd,"),
     (f"{LINKS}:OpenLinks._make_room", "self._clock() - idle.heard_us >= self._settings.silence_us", "True")),
) + of(
    "test_user_secret.py",
    ("a secret of another user is used", "one_of_another_user_is_refused", "Failed",
     (f"{USER_SECRET}:_read", " or found.st_uid != os.geteuid()", "")),
) + of(
    "test_control.py",
    ("any name leads to a node", "a_node_answers_to_the_name_that_it_listens_at", "Failed",
     (f"{CONTROL}:gate", "if host is not None and not own(_host_of(host)):", "if False:")),
    ("a token is good for all nodes", "a_token_follows_from_the_secret_and_is_good_for_one_node",
     "AssertionError",
     (f"{CONTROL}:token_of", 'f"thence control {cluster} {name}"', 'f"thence control {cluster}"')),
) + of(
    "test_http.py",
    ("bodies are read before the gate is asked", "nothing_is_read_of_a_body_that_the_gate_refuses",
     "AssertionError", (f"{HTTP}:HttpServer._read", "                self._gate(head.request)\n", "")),
)  # fmt: skip

TREES = of(
    "test_open_trees.py",
    ("a wish that leaves late closes the next link",
     "a_wish_that_was_held_back_does_not_close_the_link_that_came_up_meanwhile", "AssertionError",
     ("thence.runtime.open_trees:OpenTrees._keep", "elif not self.machine.linked(name):", "else:")),
)  # fmt: skip

MUTANTS = BUGS + REPEATED + MISTAKES + TRACES + DISK + LINKED + NEAR + ASKING + RETURNING
MUTANTS += ENDING + FOLDERS + DOORS + TREES
