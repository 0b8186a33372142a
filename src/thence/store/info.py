"""INFO: what tools read, in Redis' own words, and a section of our own."""

from thence import __version__
from thence.store.commands.connection import REDIS_VERSION
from thence.store.executor import Executor
from thence.store.host import MemberSeen
from thence.store.state import COUNT_BITS

Lines = list[tuple[str, object]]


def sections(e: Executor) -> dict[str, Lines]:
    stats, space, state = e.stats, e.state.space, e.state
    uptime = (e.now - e.started) // 1000
    blocked = e.facts["blocked"]() if "blocked" in e.facts else 0
    user, system = e.facts["cpu"]()[:2] if "cpu" in e.facts else (0.0, 0.0)
    members = e.host.members()
    oldest = min([found[0].time for found in state.order.values()], default=0)
    return {
        "Server": [
            ("redis_version", REDIS_VERSION), ("redis_git_sha1", "00000000"), ("redis_git_dirty", 0),
            ("redis_build_id", "0"), ("redis_mode", "standalone"), ("os", "thence"), ("arch_bits", 64),
            ("process_id", e.facts.get("pid", 0)), ("run_id", e.facts.get("run_id", "0" * 40)),
            ("tcp_port", e.facts.get("port", 0)), ("server_time_usec", e.clock_us()),
            ("uptime_in_seconds", uptime), ("uptime_in_days", uptime // 86400), ("hz", 10),
            ("configured_hz", 10), ("lru_clock", 0), ("executable", ""), ("config_file", ""),
        ],
        "Clients": [
            ("connected_clients", len(e.clients)), ("cluster_connections", 0),
            ("maxclients", e.config.clients_max), ("client_recent_max_input_buffer", 0),
            ("client_recent_max_output_buffer", 0), ("blocked_clients", blocked),
            ("tracking_clients", 0),
            ("pubsub_clients", 0), ("clients_in_timeout_table", 0),
        ],
        "Memory": [
            ("used_memory", e.memory), ("used_memory_human", _human(e.memory)),
            ("used_memory_rss", e.memory), ("used_memory_peak", e.memory_peak),
            ("used_memory_peak_human", _human(e.memory_peak)), ("used_memory_dataset", 0),
            ("used_memory_lua", 0),
            ("total_system_memory", e.facts.get("memory", 0)), ("maxmemory", e.config.memory_max),
            ("maxmemory_human", _human(e.config.memory_max)),
            ("maxmemory_policy", "noeviction"), ("mem_fragmentation_ratio", "1.00"),
            ("mem_allocator", "python"),
        ],
        "Persistence": [
            ("loading", int(e.host.loading)),
            ("rdb_changes_since_last_save", e.made), ("rdb_bgsave_in_progress", 0),
            ("rdb_last_save_time", e.started // 1000), ("rdb_last_bgsave_status", "ok"), ("aof_enabled", 1),
            ("aof_rewrite_in_progress", 0), ("aof_last_bgrewrite_status", "ok"),
            ("aof_last_write_status", "ok" if e.host.refusal is None else "err"),
        ],
        "Stats": [
            ("total_connections_received", stats["connections"]),
            ("total_commands_processed", e.commands),
            ("instantaneous_ops_per_sec", e.rate), ("total_net_input_bytes", stats["input"]),
            ("total_net_output_bytes", stats["output"]), ("rejected_connections", stats["rejected"]),
            ("expired_keys", space.reaped), ("evicted_keys", 0), ("keyspace_hits", e.hits),
            ("keyspace_misses", e.misses), ("pubsub_channels", 0), ("pubsub_patterns", 0),
            ("latest_fork_usec", 0), ("total_error_replies", stats["errors"]),
        ],
        "Replication": [
            ("role", "master"), ("connected_slaves", 0), ("master_failover_state", "no-failover"),
            ("master_replid", "0" * 40), ("master_repl_offset", 0), ("second_repl_offset", -1),
            ("repl_backlog_active", 0),
        ],
        "CPU": [("used_cpu_sys", f"{system:.6f}"), ("used_cpu_user", f"{user:.6f}")],
        "Commandstats": [
            (f"cmdstat_{name.lower()}", _calls(e, name)) for name in sorted({*e.calls, *e.rejected})
        ],
        "Errorstats": [
            (f"errorstat_{code}", f"count={count}") for code, count in sorted(e.errors.items())
        ],
        "Cluster": [("cluster_enabled", 0)],
        "Keyspace": [
            (f"db{number}", f"keys={len(base.keys)},expires={len(base.deadlines)},avg_ttl=0")
            for number, base in enumerate(space.databases) if base.keys
        ],
        "Thence": [
            ("thence_version", __version__), ("thence_members", len(members) or 1),
            ("thence_incarnation", state.me), ("thence_unstable_ops", state.unstable),
            ("thence_oldest_unstable_ms", max(0, e.now - (oldest >> COUNT_BITS)) if oldest else 0),
            ("thence_delivered", sum(e.host.delivered().values())),
            ("thence_hybrid_clock_ms", state.time >> COUNT_BITS),
            ("thence_clock_skew_ms", max(0, (state.time >> COUNT_BITS) - e.now)),
            ("thence_type_conflicts", sum(1 for _ in space.hidden())),
            ("thence_orphans", len(e.orphans)), ("thence_foreign", state.foreign),
            ("thence_set_wins", "remove" if space.remove_wins else "add"),
            ("thence_lock_like_sets", stats["locks"]),
            *[(f"thence_member{at}", _member(one)) for at, one in enumerate(members)],
        ],
    }  # fmt: skip


def _calls(e: Executor, name: str) -> str:
    """Commands of a transaction are counted one by one; their time is that of EXEC."""
    calls, spent = e.calls[name], e.spent[name]
    each = f"calls={calls},usec={spent},usec_per_call={spent / max(1, calls):.2f}"
    return f"{each},rejected_calls={e.rejected[name]},failed_calls={e.failed[name]}"


def info(e: Executor, wanted: list[bytes]) -> bytes:
    names = {word.decode("latin-1").lower() for word in wanted} or {"default"}
    out = []
    for name, lines in sections(e).items():
        default = "default" in names and name != "Commandstats"
        if name.lower() in names or default or names & {"all", "everything"}:
            out.append(f"# {name}\r\n" + "".join(f"{key}:{value}\r\n" for key, value in lines))
    return "\r\n".join(out).encode()


def _human(size: int) -> str:
    return f"{size / (1 << 20):.2f}M"


def _member(one: MemberSeen) -> str:
    return f"name={one.name},state={one.state},lag={one.lag},address={one.address}"
