"""Documents of recordings and of what they hold."""

from __future__ import annotations

from halfwink.schemas.parts import (
    COUNT,
    INTEGER,
    LIST,
    NOTE,
    NUMBER,
    OBJECT,
    REAL,
    TEXT,
    choice,
    document,
    part,
)
from halfwink.schemas.shared import DIRECT_MAP, FACT
from halfwink.schemas.tables import tables

ENTRY = part(
    "kind number name invocations kernel_instructions kernel_share "
    "mean_instructions median_instructions p90_instructions longest_instructions "
    "user_instructions_before nested halts"
)
LENGTH = part("kind number name mode instructions runs")
THRESHOLD = part(
    "threshold_instructions shorter_invocations longer_invocations "
    "shorter_instructions longer_instructions longer_invocation_share "
    "longer_instruction_share"
)

DOCUMENTS = {
    "capture": document(
        "halfwink capture: what was recorded, and how the program ended",
        "instructions kernel_instructions requests bytes seconds idle_ns virtual_ns "
        "unexplained exit_status",
        path=NOTE,
        workload=NOTE,
        said=NOTE.listed(),
        details=part(
            "accesses bytes exit_status from_ns guessed_times idle_ns instructions "
            "kernel_instructions other_instructions partial_runs reason repeats requests "
            "runs seconds to_ns unexplained",
            clock=part("jumped_ns jumps readings stolen_ns surprises worst_ns").or_null(),
            events=OBJECT.or_null(),
            unexplained_examples=LIST,
            said=NOTE.listed(),
        ).or_null(),
    ),
}

TABLES = {
    "record": tables(
        "what was recorded of a program, and how it ended",
        part(
            "program executed processes signals",
            path=TEXT.called("File of the trace."),
            became=TEXT.listed(),
            instructions=INTEGER.called(
                "Recorded instructions, with each repeated string instruction counted once."
            ),
            kernel_instructions=INTEGER.called("Always 0, because the kernel is not recorded."),
            samples=INTEGER.called("Recorded samples of the run; 0: all of it."),
            accesses=INTEGER.called("Recorded memory accesses."),
            threads=INTEGER.called("Threads that the program started, the first included."),
            system_calls=INTEGER.called("Recorded system calls."),
            bytes=INTEGER.called("Size of the file."),
            seconds=REAL.called("Time that the recording took on the host."),
            reason=choice("exit", "limit", "marker", "exec").called(
                "End of the recording: exit, limit, marker, or an `exec` that cannot be recorded."
            ),
            exit_status=COUNT.called(
                "Exit status as shells count it; null if the recording ended before it."
            ),
        ),
    ),
    "trace info": tables(
        "a recording's header and totals",
        part(
            "blocks bytes static_instructions templates warm_lines "
            "code cpus description isa kernel? ps_per_instruction seed unit_of_work workload "
            "accesses idle_ns instructions kernel_instructions repeats requests runs",
            command=TEXT.listed().called("Command line of the program or of the import."),
            direct_map=DIRECT_MAP.optional(),
            events=OBJECT,
            history=TEXT.listed().optional(),
            load=part("connections kind").optional(),
            notes=TEXT.listed().optional(),
            samples=part(
                of=INTEGER.called("Instructions of the run that the recording holds samples of."),
                every=INTEGER.called("Instructions of the run from one sample to the next."),
                begins=INTEGER.listed().called("Recorded instructions before each sample."),
            ).optional(),
            tools=OBJECT,
        ).with_columns(),
        sections=part("kind offset", chunk=part("first_instruction instructions runs").optional()),
        packages=part("name version"),
    ),
    "trace predict": tables(
        "predictors of kernel run lengths",
        part(
            "exceptions halted interrupts mean_instructions nested too_long unexplained workload",
            instructions=NUMBER.listed().called(
                "Instructions with all handlers, by privilege (user, kernel)."
            ),
            privileged_instructions=NUMBER.listed(),
            system_calls=NUMBER,
        ),
        predictors=part(
            "exact_percent local_percent predictions table table_entries too_short_percent "
            "within_5_percent",
            decisions=part(
                "longer_percent right_percent",
                threshold=NUMBER.called("Length of an invocation, in instructions."),
            ).listed(),
            entries=TEXT.called("Reading of the kernel entries that are predicted."),
        ),
        traps=part(
            "trap",
            kernel=NUMBER.called("Traps from kernel mode."),
            user=NUMBER.called("Traps from user mode."),
        ),
    ),
    "trace caches": tables(
        "misses of caches", misses=part("kind mode accesses l1_misses ll_misses")
    ),
    "trace check": tables(
        "whether a recording's control flow holds",
        "chunks user_instructions kernel_instructions runs accesses unexplained_successions "
        "direct_map_accesses direct_map_wrong stray_requests",
    ),
    "trace io": tables(
        "instructions of a block I/O, by part of the kernel",
        paths=part(
            "ios submissions user_instructions kernel_instructions locked_instructions "
            "interrupts lines transfers",
            cpu=TEXT.called("Role of the CPU: the one that issues or the one that completes."),
        ),
    ),
    "trace kernel": tables(
        "what the kernel does in a recording",
        part("workload", caches=TEXT),
        totals=FACT,
        entries=ENTRY,
        lengths=LENGTH,
        thresholds=THRESHOLD,
        levels=part(
            "mode accesses misses miss_share evicted_user_lines evicted_kernel_lines", level=TEXT
        ),
        evictions=part(
            "longer_than_instructions at_most_instructions user_lines kernel_lines", level=TEXT
        ),
        footprint=part("touched_by lines"),
        privileged_totals=FACT,
        privileged_entries=ENTRY,
        privileged_lengths=LENGTH,
        privileged_thresholds=THRESHOLD,
    ),
}
