"""INFO: what tools read, in Redis' own words, and a section of our own."""

from typing import Final

from thence import __version__
from thence.store.commands.connection import REDIS_VERSION
from thence.store.executor import Executor
from thence.store.state import COUNT_BITS

Lines = list[tuple[str, object]]


def sections(e: Executor) -> dict[str, Lines]:
    stats, space, state = e.stats, e.state.space, e.state
    uptime = (e.now - e.started) // 1000
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
            ("client_recent_max_output_buffer", 0), ("blocked_clients", 0), ("tracking_clients", 0),
            ("pubsub_clients", 0), ("clients_in_timeout_table", 0),
        ],
        "Memory": [
            ("used_memory", e.memory), ("used_memory_human", _human(e)),
            ("used_memory_rss", e.memory), ("used_memory_peak", e.memory),
            ("used_memory_peak_human", _human(e)), ("used_memory_dataset", 0), ("used_memory_lua", 0),
            ("total_system_memory", 0), ("maxmemory", e.config.memory_max),
            ("maxmemory_human", f"{e.config.memory_max / (1 << 20):.2f}M"),
            ("maxmemory_policy", "noeviction"), ("mem_fragmentation_ratio", "1.00"),
            ("mem_allocator", "python"),
        ],
        "Persistence": [
            ("loading", int(e.host.loading)),
            ("rdb_changes_since_last_save", 0), ("rdb_bgsave_in_progress", 0),
            ("rdb_last_save_time", e.started // 1000), ("rdb_last_bgsave_status", "ok"), ("aof_enabled", 1),
            ("aof_rewrite_in_progress", 0), ("aof_last_bgrewrite_status", "ok"),
            ("aof_last_write_status", "ok" if e.host.refusal is None else "err"),
        ],
        "Stats": [
            ("total_connections_received", stats["connections"]),
            ("total_commands_processed", e.commands),
            ("instantaneous_ops_per_sec", 0), ("total_net_input_bytes", stats["input"]),
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
        "CPU": [("used_cpu_sys", "0.0"), ("used_cpu_user", "0.0")],
        "Commandstats": [
            (f"cmdstat_{name.lower()}", f"calls={count},{CALLS}")
            for name, count in sorted(e.calls.items())
        ],
        "Errorstats": [],
        "Cluster": [("cluster_enabled", 0)],
        "Keyspace": [
            (f"db{number}", f"keys={len(base.keys)},expires={len(base.deadlines)},avg_ttl=0")
            for number, base in enumerate(space.databases) if base.keys
        ],
        "Thence": [
            ("thence_version", __version__), ("thence_members", len(e.host.members()) or 1),
            ("thence_incarnation", state.me), ("thence_unstable_ops", state.unstable),
            ("thence_delivered", sum(e.host.delivered().values())),
            ("thence_hybrid_clock_ms", state.time >> COUNT_BITS),
            ("thence_clock_skew_ms", max(0, (state.time >> COUNT_BITS) - e.now)),
            ("thence_type_conflicts", sum(1 for _ in space.hidden())),
            ("thence_orphans", len(e.orphans)), ("thence_foreign", state.foreign),
            ("thence_set_wins", "remove" if space.remove_wins else "add"),
        ],
    }  # fmt: skip


CALLS: Final = "usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0"


def info(e: Executor, wanted: list[bytes]) -> bytes:
    names = {word.decode("latin-1").lower() for word in wanted} or {"default"}
    out = []
    for name, lines in sections(e).items():
        default = "default" in names and name != "Commandstats"
        if name.lower() in names or default or names & {"all", "everything"}:
            out.append(f"# {name}\r\n" + "".join(f"{key}:{value}\r\n" for key, value in lines))
    return "\r\n".join(out).encode()


def _human(e: Executor) -> str:
    return f"{e.memory / (1 << 20):.2f}M"
