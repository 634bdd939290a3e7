//! Masks that are planned, and what is refused.
#![allow(missing_docs)]

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{applied, journal, planned, request, tree};
use halfwink_resctrl::{
    check, open, plan, Advice, Cache, Change, Error, Expected, KernelBy, Kind, Mask, Plan, Request,
    Resource, Role, Routing, Schemata, Service, State,
};
use proptest::prelude::*;

fn state(name: &str) -> (tempfile::TempDir, State) {
    let (folder, root) = tree(name);
    let state = State::read(open(&root).expect("a tree").as_ref()).expect("its state");
    (folder, state)
}

fn asked(kernel_ways: u32, services: &[(&str, u32)]) -> Request {
    let service =
        |&(name, ways): &(&str, u32)| Service { name: name.to_owned(), ways, ..Service::default() };
    Request {
        kernel_ways: Some(kernel_ways),
        services: services.iter().map(service).collect(),
        ..Request::default()
    }
}

fn lines(plan: &Plan) -> Vec<String> {
    let line = |class: &halfwink_resctrl::Class| {
        let name = if class.name.is_empty() { "(default)" } else { &class.name };
        class.schemata.iter().map(|line| format!("{name} {line}")).collect::<Vec<_>>()
    };
    plan.classes.iter().flat_map(line).collect()
}

fn refusal(state: &State, request: &Request) -> String {
    let line = plan(state, request, None).expect_err("refused").to_string();
    assert!(!line.contains('\n'));
    line
}

#[test]
fn amd_has_a_class_for_kernel_work() {
    let (_folder, state) = state("amd");
    let made = plan(&state, &asked(4, &[]), None).expect("a plan");
    assert_eq!(made.kernel.by, KernelBy::Mode);
    assert_eq!(made.kernel.mode.as_deref(), Some("global_assign_ctrl_inherit_mon_per_cpu"));
    assert_eq!(lines(&made), ["halfwink-kernel L3:0=f;1=f", "(default) L3:0=fff0;1=fff0"]);
    assert!(made.notes.contains(&"classes left after this: 13".to_owned()), "{:?}", made.notes);
}

#[test]
fn arm_and_intel_have_classes_of_tasks_and_say_so() {
    for name in ["arm", "intel"] {
        let (_folder, state) = state(name);
        let made = plan(&state, &asked(4, &[]), None).expect("a plan");
        assert_eq!((made.kernel.by, &made.kernel.mode), (KernelBy::Threads, &None));
        assert!(made.notes[0].starts_with("no class for kernel work here"), "{:?}", made.notes);
        let wants = Request { kernel_by: Some(KernelBy::Mode), ..asked(4, &[]) };
        assert!(refusal(&state, &wants).contains("no class for kernel work"));
    }
}

#[test]
fn arm_writes_all_cache_ids() {
    let (_folder, state) = state("arm");
    let made = plan(&state, &asked(6, &[("web", 3)]), None).expect("a plan");
    assert_eq!(
        lines(&made),
        [
            "halfwink-kernel L3:1=3f;65537=3f",
            "web L3:1=1c0;65537=1c0",
            "(default) L3:1=fe00;65537=fe00"
        ]
    );
}

#[test]
fn intel_keeps_code_and_data_apart_and_off_the_ways_of_devices() {
    let (_folder, state) = state("intel");
    let l3 = |routing| Request { cache: Some(Cache::L3), routing, ..asked(4, &[]) };
    let both = plan(&state, &l3(None), None).expect("a plan");
    assert_eq!(
        lines(&both),
        [
            "halfwink-kernel L3CODE:0=f;1=f",
            "halfwink-kernel L3DATA:0=f;1=f",
            "(default) L3CODE:0=7f0;1=7f0",
            "(default) L3DATA:0=7f0;1=7f0"
        ]
    );
    let data = plan(&state, &l3(Some(Routing::Data)), None).expect("a plan");
    assert_eq!(
        lines(&data),
        [
            "halfwink-kernel L3CODE:0=7ff;1=7ff",
            "halfwink-kernel L3DATA:0=f;1=f",
            "(default) L3DATA:0=7f0;1=7f0"
        ]
    );
    let code = plan(&state, &l3(Some(Routing::Instructions)), None).expect("a plan");
    assert!(lines(&code).contains(&"(default) L3CODE:0=7f0;1=7f0".to_owned()));
    assert!(!lines(&code).iter().any(|line| line.starts_with("(default) L3DATA")));
    // Ten of eleven ways cannot stay off both of theirs.
    let wide = plan(&state, &Request { cache: Some(Cache::L3), ..asked(10, &[]) }, None);
    let wide = wide.expect("a plan");
    assert!(wide.notes.iter().any(|note| note.contains("ways that devices use (600)")));
    // The second level comes first: it is what the chapter divides.
    assert_eq!(plan(&state, &asked(4, &[]), None).expect("a plan").cache, Cache::L2);
}

#[test]
fn a_group_that_keeps_ways_of_a_class_is_named() {
    let (_folder, state) = state("amd");
    let made = plan(&state, &asked(4, &[("web", 10)]), None).expect("a plan");
    let note = "class web: group batch keeps L3 ways of it";
    assert!(made.notes.iter().any(|n| n == note), "{:?}", made.notes);
}

#[test]
fn what_cannot_be_is_refused_with_one_line() {
    let (_folder, amd) = state("amd");
    let both = |request: Request, expected: &str| {
        let line = refusal(&amd, &request);
        assert!(line.contains(expected), "{line}");
    };
    both(Request::default(), "--kernel-ways: expected how many of the 16 ways");
    both(asked(0, &[]), "--kernel-ways 0: expected at least 1 of 16");
    both(asked(16, &[]), "--kernel-ways 16: expected at most 15 of 16");
    both(asked(u32::MAX, &[]), "expected at most 15 of 16");
    both(asked(8, &[("web", 8)]), "--class web=8: expected at most 7 of 16");
    both(asked(8, &[("web", 0)]), "--class web=0: expected at least 1");
    both(asked(4, &[("web", 1), ("web", 1)]), "expected each name once");
    both(asked(4, &[("batch", 1)]), "has a group of that name");
    for name in ["info", "mon_groups", "", "a/b", "..", "a b", "a\nb"] {
        both(asked(4, &[(name, 1)]), "expected up to 32 letters");
    }
    both(Request { cache: Some(Cache::L2), ..asked(4, &[]) }, "no masks of L2, only of L3");
    both(Request { routing: Some(Routing::Data), ..asked(4, &[]) }, "-o cdp");
    let member = |cpus: &str, tasks: &[u32]| {
        let mut request = asked(4, &[("web", 1)]);
        request.services[0].cpus = cpus.to_owned();
        request.services[0].tasks = tasks.to_vec();
        request
    };
    both(member("99", &[]), "no CPU 99");
    both(member("3-1", &[]), "expected a list of CPUs");
    both(member("", &[77]), "no task 77");
    both(member("", &[101, 101]), "task 101: expected it once");
    let (_folder, intel) = state("intel");
    let many: Vec<(&str, u32)> = ["a", "b", "c", "d"].map(|name| (name, 1)).into();
    assert!(refusal(&intel, &asked(1, &many)).contains("has room for 3 more (num_closids)"));
}

#[test]
fn exclusive_ways_stay_somebody_elses() {
    let (_folder, root) = tree("amd");
    fs::write(root.join("batch/mode"), "exclusive\n").expect("written");
    let state = State::read(open(&root).expect("a tree").as_ref()).expect("its state");
    assert!(refusal(&state, &asked(4, &[])).contains("group batch is exclusive there"));
}

#[test]
fn edited_masks_are_checked_before_anything_is_written() {
    let cases = [
        ("intel", Cache::L3, "L3CODE:0=5;1=5", "gaps"),
        ("intel", Cache::L3, "L3CODE:0=0;1=0", "no ways"),
        ("intel", Cache::L3, "L3CODE:0=fff;1=f", "too wide"),
        ("intel", Cache::L3, "L3CODE:0=f", "expected the cache ids [0, 1]"),
        ("intel", Cache::L3, "L3:0=f;1=f", "expected masks of L3 here"),
        ("intel", Cache::L3, "L2CODE:0=f;1=f", "expected masks of L3 here"),
        ("intel", Cache::L3, "L3CODE:0=x;1=f", "in hexadecimal"),
        ("amd", Cache::L3, "L3:0=0;1=f", "no ways"),
        ("amd", Cache::L3, "L3:0=10000;1=f", "too wide"),
        ("arm", Cache::L3, "L3:1=f;2=f", "expected the cache ids [1, 65537]"),
    ];
    for (name, cache, line, expected) in cases {
        let (_folder, root) = tree(name);
        let before = common::bytes(&root);
        let mut made = planned(&root, &Request { cache: Some(cache), ..request(false) });
        made.classes[0].schemata[0] = line.to_owned();
        let error = applied(&root, &made).expect_err("refused");
        assert!(error.is_input() && error.to_string().contains(expected), "{error}");
        assert_eq!(common::bytes(&root), before);
        assert!(!journal(&root).exists());
    }
    // Parts that take gaps get them.
    let (_folder, root) = tree("amd");
    let mut made = planned(&root, &request(false));
    made.classes[0].schemata[0] = "L3:0=5;1=a".to_owned();
    applied(&root, &made).expect("applied");
    let held = fs::read_to_string(root.join("halfwink-kernel/schemata")).expect("masks");
    assert!(held.ends_with("    L3:0=0005;1=000a\n"), "{held}");
}

#[test]
fn a_plan_of_another_machine_is_refused() {
    let (_folder, amd) = tree("amd");
    let (_other_folder, arm) = tree("arm");
    let made = planned(&amd, &request(false));
    let error = applied(&arm, &made).expect_err("refused").to_string();
    assert!(error.contains("expected the cache ids"), "{error}");
    let mut modes = planned(&amd, &request(false));
    modes.kernel.mode = Some("inherit_ctrl_and_mon".to_owned());
    assert!(applied(&amd, &modes).expect_err("refused").to_string().contains("does not offer it"));
}

#[test]
fn a_plan_reads_back_and_says_where_it_is_wrong() {
    let (_folder, root) = tree("intel");
    let made = planned(&root, &request(true));
    let text = made.to_json();
    let path = Path::new("plan.json");
    assert_eq!(Plan::parse(&text, path).expect("a plan"), made);
    for (from, to, expected) in [
        ("plan/1", "plan/9", "plan.json:1: halfwink.resctrl.plan/9: expected the schema"),
        ("\"cache\": \"L2\"", "\"cache\": \"L9\"", "plan.json:4: unknown variant `L9`"),
        ("\"workload\"", "\"a\\nb\"", "plan.json:3: unknown field `a\\nb`"),
        ("\"workload\"", "\"wrkload\"", "plan.json:3: unknown field `wrkload`"),
    ] {
        let error = Plan::parse(&text.replace(from, to), path).expect_err("refused").to_string();
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}");
    }
}

fn advice(kernel_ways: Option<u8>, leave_it: bool) -> Advice {
    let change =
        |mean_pct: f64| Change { mean_pct, low_pct: mean_pct - 1.0, high_pct: mean_pct + 1.0 };
    Advice {
        ways_of_cache: 16,
        kernel_ways,
        routing: Routing::Both,
        expected: Some(Expected { latency: change(-3.0), energy: change(-2.0) }),
        leave_it,
        why: "fewer misses than with any other split".to_owned(),
    }
}

#[test]
fn advice_gives_the_ways_unless_they_are_asked_for() {
    let (_folder, state) = state("amd");
    let by = |request: &Request, advice: &Advice| plan(&state, request, Some(advice));
    let made = by(&Request::default(), &advice(Some(3), false)).expect("a plan");
    assert_eq!(lines(&made)[0], "halfwink-kernel L3:0=7;1=7");
    assert_eq!(made.advice, Some(advice(Some(3), false)));
    let made = by(&asked(5, &[]), &advice(Some(3), false)).expect("a plan");
    assert_eq!(made.classes[0].ways, 5);
    for leave in [advice(Some(3), true), advice(None, false)] {
        let made = by(&Request::default(), &leave).expect("a plan");
        assert!(made.leave_it && made.classes.is_empty());
    }
    let other = Advice { ways_of_cache: 8, ..advice(Some(3), false) };
    let error = by(&Request::default(), &other).expect_err("refused").to_string();
    assert!(error.contains("the advice is for a cache of 8 ways, this one has 16"), "{error}");
}

#[test]
fn a_plan_to_leave_it_writes_nothing() {
    let (_folder, root) = tree("amd");
    let before = common::bytes(&root);
    let state = State::read(open(&root).expect("a tree").as_ref()).expect("its state");
    let made = plan(&state, &Request::default(), Some(&advice(None, true))).expect("a plan");
    assert!(applied(&root, &made).expect("nothing to do").left);
    assert_eq!(common::bytes(&root), before);
    assert!(!journal(&root).exists());
}

#[test]
fn an_unknown_form_of_the_kernel_mode_is_said_and_can_be_done_without() {
    let (_folder, root) = tree("amd");
    // As series v2 had it.
    fs::write(root.join("info/kernel_mode"), "[inherit_ctrl_and_mon]\n").expect("written");
    let state = State::read(open(&root).expect("a tree").as_ref()).expect("its state");
    let line = refusal(&state, &asked(4, &[]));
    assert!(line.contains("info/kernel_mode:1: [inherit_ctrl_and_mon]: expected MODE:group="));
    let threads = Request { kernel_by: Some(KernelBy::Threads), ..asked(4, &[]) };
    assert!(plan(&state, &threads, None).is_ok());
}

/// A tree in memory: a cache of so many ways, with code and data apart or not.
fn synthetic(ways: u32, least: u32, shareable: u32, ids: Vec<u32>, apart: bool) -> State {
    let cbm_mask = Mask::run(0, ways).expect("at most 32");
    let names = if apart { vec!["L2CODE", "L2DATA"] } else { vec!["L2"] };
    let kind = |name: &str| match name {
        "L2CODE" => Kind::Code,
        "L2DATA" => Kind::Data,
        _ => Kind::Unified,
    };
    let resource = |name: &str| Resource {
        cache: Cache::L2,
        kind: kind(name),
        cbm_mask,
        min_cbm_bits: least,
        shareable_bits: Mask(shareable & cbm_mask.0),
        num_closids: 16,
        sparse_masks: false,
        ids: ids.clone(),
    };
    let (_folder, mut state) = state("arm");
    let all: BTreeMap<u32, Mask> = ids.iter().map(|&id| (id, cbm_mask)).collect();
    let text: Vec<String> = names.iter().map(|name| Schemata::text_of(name, &all)).collect();
    state.groups[0].schemata = Schemata::parse(&text.join("\n"), Path::new("s")).expect("text");
    state.resources = names.into_iter().map(|name| (name.to_owned(), resource(name))).collect();
    state
}

proptest! {
    #[test]
    fn masks_are_contiguous_disjoint_and_cover_the_cache(
        ways in 2u32..=32,
        least in 0u32..4,
        shareable: u32,
        ids in prop::collection::btree_set(any::<u32>(), 1..5),
        apart: bool,
        wanted in prop::collection::vec(0u32..12, 1..5),
    ) {
        let ids: Vec<u32> = ids.into_iter().collect();
        let tree = synthetic(ways, least, shareable, ids.clone(), apart);
        let names = ["a", "b", "c", "d"];
        let services: Vec<(&str, u32)> =
            names.into_iter().zip(wanted[1..].iter().copied()).collect();
        let least = least.max(1);
        let sum: u32 = wanted.iter().sum();
        let fits = wanted.iter().all(|&w| w >= least) && sum + least <= ways;
        let made = plan(&tree, &asked(wanted[0], &services), None);
        prop_assert_eq!(made.is_ok(), fits, "{:?}", made.map(|p| p.classes));
        let Ok(made) = plan(&tree, &asked(wanted[0], &services), None) else { return Ok(()) };
        check(&made, &tree).expect("a tree takes what was planned for it");
        prop_assert_eq!(made.classes.last().map(|c| c.role), Some(Role::Rest));
        for (name, resource) in &tree.resources {
            for &id in &ids {
                let mut seen = Mask(0);
                for class in &made.classes {
                    let text = class.schemata.join("\n");
                    let masks = Schemata::parse(&text, Path::new("s")).expect("text");
                    let mask = masks.masks(name).expect("a line")[&id];
                    prop_assert!(mask.is_contiguous() && !mask.overlaps(seen));
                    prop_assert_eq!(mask.ways(), class.ways);
                    seen = Mask(seen.0 | mask.0);
                }
                prop_assert_eq!(seen, resource.cbm_mask);
            }
        }
    }
}

#[test]
fn errors_of_use_and_of_work_are_told_apart() {
    assert!(Error::Input(String::new()).is_input());
    assert!(!Error::Failed(String::new()).is_input());
}
