"""Methods behind a report's figures: the models of each world, and the definition of savings."""

from __future__ import annotations

from halfwink.results.results import Results

#: Where the pages are; a link is followed by the reader, never by the page.
DOCS = "https://github.com/halfwink/halfwink/blob/main/docs"
#: Of each world: what is played, and its page.
WORLDS = {
    "chip": (
        "Recorded instructions of user and kernel are played on simulated cores, caches and memory,"
        " from one event to the next; each state and access of a component has its own watts.",
        "chip.md",
    ),
    "router": (
        "Packets arrive at the queues of a simulated software router, exact to the packet; power is"
        " a closed form of how many cores run, how fast and how busy.",
        "techniques/router.md",
    ),
    "server": (
        "Requests queue before a small and a big machine; power follows each machine's state and"
        " use.",
        "techniques/hybrid.md",
    ),
    "switching": (
        "Threads move between cores inside system calls, each way with its costs; power"
        " is that of each core's state.",
        "techniques/core-switching.md",
    ),
    "preheat": (
        "Requests arrive at a server that sleeps and loses its caches; times of cold, warm and"
        " preheated requests are those that the machine's file lists.",
        "techniques/preheat-world.md",
    ),
    "fabric": (
        "Hosts send packets over circuits by turns, packet by packet; power is that of ports and"
        " switches.",
        "techniques/circuits.md",
    ),
    "racks": (
        "Flows between racks share links at rates that change only when a flow or a circuit begins"
        " or ends; power is that of ports and switches.",
        "techniques/circuit-flows.md",
    ),
    "storage": (
        "I/Os take the locks of a simulated block layer and complete on the CPU that a policy"
        " names; power is that of CPUs which run, spin or idle.",
        "techniques/storage.md",
    ),
}


def methods(results: Results) -> list[dict[str, str]]:
    """Sentences, each with a page that says more (``""`` if there is none)."""
    seeds = "seed=" in " ".join(results.runs["set"].unique())
    rests = (
        "Seeds were swept: figures are means over them, ± half of the 95 % interval (Student's t)."
        if seeds
        else "Each figure is of one run; ± is half of the 95 % interval over slices of it. All"
        " techniques play the same work: brackets are 95 % intervals of the difference."
    )
    where = f" on {results.baseline_machine}" if results.baseline_machine else ""
    related = (
        f"Saved and slowed down are relative to {results.baseline}{where} on the same work"
        " and at the same rate of it; beyond today, to the best technique of today that keeps the"
        " limits."
    )
    said = [(related, "verdict.md"), (rests, "verdict.md")]
    if results.world in WORLDS:
        said.insert(0, WORLDS[results.world])
    return [{"text": text, "page": f"{DOCS}/{page}"} for text, page in said]
