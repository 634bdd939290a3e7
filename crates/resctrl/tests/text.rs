//! The parsers: what they take comes back, what they refuse is named.
#![allow(missing_docs)]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use common::tree;
use halfwink_resctrl::{names, open, text, Journal, Line, Mask, Plan, Schemata, State};
use proptest::prelude::*;

fn path() -> &'static Path {
    Path::new("tree/file")
}

#[test]
fn schemata_of_the_kernel_are_read() {
    let text = "    MB:0= 100;1=  50\nL3CODE:0=7ff;1=00f\nL3DATA:0=7ff;1=7f0\n";
    let read = Schemata::parse(text, path()).expect("text");
    assert_eq!(read.to_string(), "MB:0=100;1=50\nL3CODE:0=7ff;1=f\nL3DATA:0=7ff;1=7f0\n");
    assert_eq!(read.masks("L3CODE"), Some(&BTreeMap::from([(0, Mask(0x7ff)), (1, Mask(0xf))])));
    assert_eq!(read.masks("MB"), None);
}

#[test]
fn odd_text_is_refused_with_file_line_and_what_was_expected() {
    let schemata = |text: &str| Schemata::parse(text, path()).map(drop);
    for (text, expected) in [
        ("L3", "tree/file:1: L3: expected RESOURCE:ID=VALUE"),
        ("L3:", "tree/file:1: L3:: expected RESOURCE"),
        ("L3:0", "tree/file:1: L3:0: expected RESOURCE"),
        ("L3:0=f\nL3:1=f", "tree/file:2: L3:1=f: expected each resource once"),
        ("L3:0=f;0=f", "tree/file:1: L3:0=f;0=f: expected each cache id once"),
        ("L3:0=100000000", "tree/file:1: L3:0=100000000: expected masks of up to 32 bits"),
        ("L3:0=f;", "tree/file:1: L3:0=f;: expected RESOURCE"),
        ("l3:0=f", "tree/file:1: l3:0=f: expected RESOURCE"),
        ("L3:-1=f", "tree/file:1: L3:-1=f: expected RESOURCE"),
        ("\n", "tree/file:1: nothing: expected RESOURCE"),
    ] {
        let error = schemata(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    let one = |result: Result<(), halfwink_resctrl::Error>| result.expect_err("odd").to_string();
    assert!(one(text::mask("ff\nff\n", path()).map(drop)).starts_with("tree/file:2: ff: "));
    assert!(one(text::count("-1\n", path()).map(drop)).ends_with("-1: expected a whole number"));
    assert!(one(text::count("\n", path()).map(drop)).contains("nothing"));
    assert!(one(text::flag("2\n", path()).map(drop)).ends_with("2: expected 0 or 1"));
    assert!(one(text::tasks("1\n\n", path()).map(drop)).starts_with("tree/file:2: nothing"));
    assert!(one(text::cpus("0-99999999\n", path()).map(drop)).contains("0-99999999"));
}

#[test]
fn kernel_modes_of_series_v3_are_read_and_written() {
    let text = "inherit_ctrl_and_mon:group=none\n\
                [global_assign_ctrl_inherit_mon_per_cpu:group=g1//]\n\
                global_assign_ctrl_assign_mon_per_cpu:group=none\n";
    let mode = text::kernel_mode(text, path()).expect("text");
    assert_eq!(mode.active, names::ASSIGN_INHERIT_MON);
    assert_eq!(mode.command(), "global_assign_ctrl_inherit_mon_per_cpu:group=g1//");
    assert_eq!(mode.show(), text);
    // What undoes a binding names no group.
    let text = "[inherit_ctrl_and_mon:group=//]\n";
    assert_eq!(text::kernel_mode(text, path()).expect("text").command(), "inherit_ctrl_and_mon");
    for bad in [
        "",
        "inherit_ctrl_and_mon:group=none\n",
        "[a:group=//]\n[b:group=//]\n",
        "[a:group=//\n",
        "[a:group=g]\n",
        "[a:group=g/m/x/]\n",
        "[a]\n",
        "[a:group=//]\nb:group=g//\n",
        "[a:group=//]\na:group=none\n",
        "[:group=//]\n",
    ] {
        let error = text::kernel_mode(bad, path()).expect_err(bad).to_string();
        assert!(error.starts_with("tree/file:") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn odd_trees_are_refused_by_file() {
    let cases: [(&str, Option<&str>, &str); 13] = [
        ("info/L3/cbm_mask", Some("0\n"), "info/L3/cbm_mask:1: 0: expected ones from bit 0"),
        ("info/L3/cbm_mask", Some("fff0\n"), "expected ones from bit 0"),
        ("info/L3/cbm_mask", Some("f0f\n"), "expected ones from bit 0"),
        ("info/L3/cbm_mask", Some(""), "info/L3/cbm_mask:1: nothing: expected a mask"),
        ("info/L3/min_cbm_bits", Some("17\n"), "expected at most the 16 ways"),
        ("info/L3/shareable_bits", Some("10000\n"), "expected bits of cbm_mask, ffff"),
        ("info/L3/num_closids", Some("many\n"), "num_closids:1: many: expected a whole number"),
        ("schemata", Some("MB:0=1;1=1\n"), "expected a line of L3, as in info"),
        ("batch/schemata", Some("L3:0=ffff\n"), "batch/schemata:1: L3:0=ffff: expected the cache"),
        ("batch/schemata", Some("L3:0=1ffff;1=1\n"), "expected masks within info/L3/cbm_mask"),
        ("batch/mode", Some("odd\n"), "batch/mode:1: odd: expected one of shareable"),
        ("batch/tasks", None, "batch/tasks: No such file"),
        ("info/L3/min_cbm_bits", None, "info/L3/min_cbm_bits: No such file"),
    ];
    for (file, text, expected) in cases {
        let (_folder, root) = tree("amd");
        match text {
            Some(text) => fs::write(root.join(file), text).expect("written"),
            None => fs::remove_file(root.join(file)).expect("removed"),
        }
        let files = open(&root).expect("a tree");
        let error = State::read(files.as_ref()).expect_err(expected).to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let (folder, root) = tree("amd");
    fs::remove_file(root.join("tasks")).expect("removed");
    fs::create_dir(root.join("tasks")).expect("a folder");
    assert!(State::read(open(&root).expect("a tree").as_ref()).is_err());
    let error = open(folder.path()).err().expect("no tree").to_string();
    assert!(error.contains("no resctrl tree; expected the folder `info`"), "{error}");
    assert!(open(&folder.path().join("nowhere")).is_err());
}

#[test]
fn old_kernels_do_not_say_whether_gaps_are_allowed() {
    let (_folder, root) = tree("amd");
    fs::remove_file(root.join("info/L3/sparse_masks")).expect("removed");
    let state = State::read(open(&root).expect("a tree").as_ref()).expect("its state");
    assert!(!state.resources["L3"].sparse_masks);
}

#[test]
fn the_page_has_the_table_of_names() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/resctrl.md");
    let page = fs::read_to_string(page).expect("docs/resctrl.md");
    for name in names::TABLE {
        let row = format!("| `{}` | {} | {} |", name.name, name.what, name.source);
        assert!(page.contains(&row), "docs/resctrl.md: expected the row {row}");
    }
}

proptest! {
    #[test]
    fn written_schemata_read_back_equal(
        caches in prop::collection::btree_map(
            prop::sample::select(vec!["L2", "L2CODE", "L2DATA", "L3", "L3CODE", "L3DATA"]),
            prop::collection::btree_map(any::<u32>(), any::<u32>().prop_map(Mask), 1..6),
            0..4,
        ),
        bandwidth in prop::collection::btree_map(any::<u32>(), "[0-9a-zA-Z._]{1,6}", 1..4),
    ) {
        let mut lines: Vec<(String, Line)> = caches
            .into_iter()
            .map(|(name, masks)| (name.to_owned(), Line::Masks(masks)))
            .collect();
        lines.push(("MB".to_owned(), Line::Other(bandwidth)));
        let schemata = Schemata { lines };
        let text = schemata.to_string();
        prop_assert_eq!(Schemata::parse(&text, path()).expect("our own"), schemata);
    }

    #[test]
    fn lists_of_cpus_come_back(cpus in prop::collection::btree_set(0u32..300, 0..40)) {
        let shown = text::show_cpus(&cpus);
        prop_assert_eq!(text::cpus(&shown, path()).expect("our own"), cpus);
    }

    #[test]
    fn anything_is_read_or_refused_in_one_line(bytes in "[\\PC\n]{0,80}") {
        let outcomes: Vec<Result<(), halfwink_resctrl::Error>> = vec![
            Schemata::parse(&bytes, path()).map(drop),
            text::kernel_mode(&bytes, path()).map(drop),
            text::cpus(&bytes, path()).map(drop),
            text::tasks(&bytes, path()).map(drop),
            text::mask(&bytes, path()).map(drop),
            Plan::parse(&bytes, path()).map(drop),
            Journal::parse(&bytes, path()).map(drop),
        ];
        for error in outcomes.into_iter().filter_map(Result::err) {
            let line = error.to_string();
            prop_assert!(line.starts_with("tree/file:") && !line.contains('\n'), "{}", line);
        }
    }
}

#[test]
fn cpus_are_shown_as_the_kernel_does() {
    assert_eq!(text::show_cpus(&BTreeSet::from([0, 1, 2, 5, 7, 8])), "0-2,5,7-8");
    assert_eq!(text::show_cpus(&BTreeSet::new()), "");
}
