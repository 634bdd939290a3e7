"""Documents of lists and of published numbers beside ours."""

from __future__ import annotations

from halfwink.schemas.parts import (
    FLAG,
    LIST,
    NOTE,
    NUMBER,
    OBJECT,
    REAL,
    SCALAR,
    TEXT,
    Node,
    choice,
    document,
    part,
)
from halfwink.schemas.shared import DIRECT_MAP, TOTALS

PARAMETER = part("name unit default range title source")
#: `open` is not known, `echo` was fitted or taken from print; null if the claim does not say.
ANSWER = choice("yes", "no", "open", "echo", None)
#: Lists, each with a document of its own.
LISTS = (
    "worlds",
    "techniques",
    "machines",
    "workloads",
    "studies",
    "experiments",
    "targets",
    "mutants",
    "networks",
    "schemas",
)

DOCUMENTS = {
    "list": document(
        "halfwink list: names of all there is",
        **{name: TEXT.listed().called(f"Names of all {name}.") for name in LISTS},
    ),
    "list.experiments": document(
        "halfwink list experiments", experiments=part("name title").listed()
    ),
    "list.machines": document("halfwink list machines", machines=part("world name title").listed()),
    "list.mutants": document(
        "halfwink list mutants: ways to break the models",
        mutants=part(
            "name kills title quick",
            areas=TEXT.listed(),
            copy=OBJECT,
            experiments=OBJECT,
            machines=TEXT.listed(),
            scale=OBJECT,
            set=OBJECT,
            sweeps=OBJECT,
            techniques=OBJECT,
            what=TEXT.called("Description of the mutation."),
            breaks=TEXT.called("Kind of the mutation: `technique` or `input`."),
        ).listed(),
    ),
    "list.networks": document(
        "halfwink list networks: of power delivery",
        networks=part("name also title", cores=NUMBER, calibrated=TEXT.listed()).listed(),
    ),
    "list.schemas": document(
        "halfwink list schemas: what JSON documents look like",
        schemas=part("name title", json_schema=OBJECT).listed(),
    ),
    "list.studies": document(
        "halfwink list studies",
        studies=part(
            "name world title",
            workloads=TEXT.listed(),
            machines=TEXT.listed(),
            techniques=TEXT.listed(),
            runs=NUMBER.called("Number of runs; null if the study is adaptive."),
        ).listed(),
    ),
    "list.targets": document(
        "halfwink list targets: published numbers",
        targets=part(
            "anomaly area class contradicted derived held_out id note quantity source unit neutral",
            compute=part(
                "remark sql",
                calibrated=FLAG.called("Whether our value rests on a fit to published ones."),
                from_=TEXT.listed().called("Tables that the value is computed from."),
            ),
            killed_by=TEXT.listed(),
            published=SCALAR,
            tolerance=part("abs max min rel").or_null(),
        ).listed(),
    ),
    "list.techniques": document(
        "halfwink list techniques, with their parameters",
        techniques=part(
            "name family title source how is_usual is_modifier settings",
            worlds=TEXT.listed(),
            available=choice("today", "kernel", "silicon", "bound"),
            parameters=PARAMETER.listed(),
        ).listed(),
    ),
    "list.workloads": document(
        "halfwink list workloads",
        workloads=part(
            "world name kind? description? bytes? title",
            header=part(
                "code cpus description isa kernel ps_per_instruction seed unit_of_work workload",
                command=TEXT.listed(),
                direct_map=DIRECT_MAP,
                history=TEXT.listed(),
                load=part("connections kind rate_per_s?").optional(),
                notes=TEXT.listed(),
                packages=OBJECT.listed(),
                tools=OBJECT,
            ).optional(),
            totals=TOTALS.optional(),
            instructions=TEXT.optional(),
        ).listed(),
    ),
    "list.worlds": document(
        "halfwink list worlds, with their options",
        worlds=part(
            "name title settings",
            options=PARAMETER.listed(),
            tables=part(
                run=LIST.listed(),
                ledger=LIST.listed(),
                counters=LIST.listed().optional(),
                histograms=LIST.listed().optional(),
                calls=LIST.listed().optional(),
                segregation=LIST.listed().optional(),
                timeline=LIST.listed().optional(),
                slots=LIST.listed().optional(),
                cores=LIST.listed().optional(),
                sizes=LIST.listed().optional(),
            ),
            short=part("column heading digits").listed(),
            machine=NOTE.called(
                "Machine that is played where none is named; null for the first one."
            ),
            workload=NOTE.called(
                "Workload that is played where none is named; null if one must be named."
            ),
            loads=TEXT.listed()
            .or_null()
            .called("Loads that are played where none is named; null if the world has none."),
        ).listed(),
    ),
    "reproduce.claims": document(
        "halfwink reproduce --claims: headline claims of the works, and whether they hold",
        claims=part(
            "claim figure",
            id=TEXT.called("Work and name of the claim."),
            source=TEXT.called("Abstract, table, figure or section of the work."),
            verdict=choice("holds", "holds in part", "fails", "not determined", "echo").called(
                "Verdict, computed from the targets that carry the claim."
            ),
            sign=ANSWER.called("Whether the effect has the printed sign."),
            order=ANSWER.called("Whether the results have the printed order."),
            size=ANSWER.called("Whether the numbers lie within their tolerances."),
            who=ANSWER.called("Whether the printed program or setting leads."),
            shape=ANSWER.called("Whether knees, optima and crossings are as printed."),
            unit=TEXT.called("Unit of `published` and `ours`."),
            published=Node({"type": ["number", "boolean", "string"]}).called(
                "Printed value of the figure."
            ),
            ours=Node({"type": ["number", "boolean", "null"]}).called("Our value of the figure."),
            said=TEXT.called("Sentence that compares our value with the printed one."),
            null=NOTE.called("Description of the model without the mechanism."),
            null_holds=Node({"type": ["boolean", "null"]}),
            turned_by=TEXT.listed(),
            targets=TEXT.listed().called("Targets that carry the claim."),
        ).listed(),
    ),
    "reproduce.mutants": document(
        "halfwink reproduce --mutants: which broken models the targets notice",
        "score_pct",
        mutants=part(
            "name breaks",
            what=TEXT.called("Description of the mutation."),
            killed=LIST.called("Targets that are no longer met under the mutant."),
        ).listed(),
        met=LIST.called("Targets that are met without a mutant."),
        insensitive=LIST,
        idle=LIST.called("Mutants under which no target changes."),
    ),
    "reproduce.scores": document(
        "halfwink reproduce --scores: predictions, those that are met here and by a "
        "model without the mechanism, by row",
        scores=part(
            "name judged good null_good beyond error_ratio held_out_good held_out_judged "
            "held_out_null median_error_pct killed met facts_good",
            apart=OBJECT,
            facts=NUMBER.called("Predictions in which one value of ours counts once."),
        ).listed(),
    ),
    "reproduce.targets": document(
        "halfwink reproduce: published numbers beside ours, with a verdict",
        targets=part(
            "id area source quantity unit class held_out how note",
            published=SCALAR,
            ours=Node({"type": ["boolean", "null", "number"]}),
            verdict=TEXT.called("Verdict on the target: `match`, `miss` and others."),
            null=part(
                "text",
                value=REAL,
                met=FLAG.called("Whether the null model meets the published value."),
            ).or_null(),
            killed_by=TEXT.listed(),
        ).listed(),
    ),
}
