"""Tables of lists and of published numbers beside ours."""

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
    part,
)
from halfwink.schemas.shared import DIRECT_MAP, TOTALS
from halfwink.schemas.tables import tables

PARAMETER = part("name unit default range title source")
#: `open` is not known, `echo` was fitted or taken from print; null if the claim does not say.
ANSWER = choice("yes", "no", "open", "echo", None)

TABLES = {
    "list": tables("numbers and names of all there is", lists=part("name entries names")),
    "list experiments": tables("what can be computed by name", experiments=part("name title")),
    "list machines": tables("machines of each world", machines=part("world name title")),
    "list mutants": tables(
        "ways to break the models",
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
        ),
    ),
    "list networks": tables(
        "networks of power delivery",
        networks=part("name also title", cores=NUMBER, calibrated=TEXT.listed()),
    ),
    "list schemas": tables(
        "kinds of JSON documents", schemas=part("name title", json_schema=OBJECT)
    ),
    "list studies": tables(
        "studies that can be run by name",
        studies=part(
            "name world title",
            workloads=TEXT.listed(),
            machines=TEXT.listed(),
            techniques=TEXT.listed(),
            runs=NUMBER.called("Number of runs; null if the study is adaptive."),
        ),
    ),
    "list targets": tables(
        "published numbers",
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
        ),
    ),
    "list techniques": tables(
        "techniques with their parameters",
        techniques=part(
            "name family title source how is_usual is_modifier is_within_requests settings",
            worlds=TEXT.listed(),
            available=choice("today", "kernel", "silicon", "bound"),
            parameters=PARAMETER.listed(),
        ),
    ),
    "list workloads": tables(
        "workloads of each world, with what recordings hold",
        workloads=part(
            "world name kind? description? bytes? title",
            header=part(
                "code cpus description isa kernel ps_per_instruction seed unit_of_work workload",
                command=TEXT.listed().called("Command line of the program or of the import."),
                direct_map=DIRECT_MAP,
                history=TEXT.listed(),
                load=part("connections kind rate_per_s?").optional(),
                notes=TEXT.listed(),
                packages=OBJECT.listed(),
                tools=OBJECT,
            ).optional(),
            totals=TOTALS.optional(),
            instructions=TEXT.optional().called(
                "Number of instructions and share of the kernel, for display."
            ),
        ),
    ),
    "list worlds": tables(
        "worlds with their options and the tables of their results",
        worlds=part(
            "name title settings",
            options=PARAMETER.listed(),
            tables=LIST.by_name().called("Names and kinds of the columns of each table."),
            short=part("column heading digits").listed(),
            machine=NOTE.called("Machine where none is named; null for the first one."),
            workload=NOTE.called("Workload where none is named; null if one must be."),
            loads=TEXT.listed()
            .or_null()
            .called("Loads where none is named; null if the world has none."),
        ),
    ),
    "reproduce": tables(
        "published numbers beside ours, with a verdict",
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
        ),
    ),
    "reproduce --claims": tables(
        "headline claims of the works, and whether they hold",
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
            published=SCALAR,
            ours=Node({"type": ["number", "boolean", "null"]}).called("Our value of the figure."),
            said=TEXT.called("Sentence that compares our value with the printed one."),
            null=NOTE.called("Description of the model without the mechanism."),
            null_holds=Node({"type": ["boolean", "null"]}),
            turned_by=TEXT.listed(),
            better_under=TEXT.listed(),
            turned=NOTE,
            targets=TEXT.listed().called("Targets that carry the claim."),
        ),
    ),
    "reproduce --mutants": tables(
        "broken models, and which of them the targets notice",
        part(
            "score_pct",
            met=LIST.called("Targets that are met without a mutant."),
            insensitive=LIST,
            idle=LIST.called("Mutants under which no target changes."),
        ),
        mutants=part(
            "name breaks",
            what=TEXT.called("Description of the mutation."),
            killed=LIST.called("Targets that are no longer met under the mutant."),
        ),
    ),
    "reproduce --scores": tables(
        "predictions by work and area, and those that a model without the mechanism meets",
        scores=part(
            "name judged good null_good beyond error_ratio held_out_good held_out_judged "
            "held_out_null median_error_pct killed met facts_good",
            apart=OBJECT,
            facts=NUMBER.called("Predictions in which one value of ours counts once."),
        ),
    ),
}
