//! What is applied can be taken back, wherever `apply` or `restore` stopped.
#![allow(missing_docs)]

use crate::common;

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{applied, assign, bytes, journal, planned, request, tree, Fault, Faulty};
use halfwink_resctrl::{apply, open, restore, Cache, Error, Files, KernelBy, Request};

/// Each small tree with a plan that uses all that it offers.
fn cases() -> Vec<(&'static str, Request)> {
    let with = |cache| Request { cache, ..request(true) };
    let threads = Request { kernel_by: Some(KernelBy::Threads), ..request(true) };
    vec![
        ("intel", with(Some(Cache::L3))),
        ("intel", Request { cache: Some(Cache::L2), ..request(false) }),
        ("amd", with(None)),
        ("amd", threads),
        ("arm", with(None)),
    ]
}

fn restored(root: &Path) -> halfwink_resctrl::Restored {
    let mut files = open(root).expect("a tree");
    restore(files.as_mut(), &journal(root), false).expect("it is taken back")
}

/// How many writes a plan takes.
fn writes(name: &str, request: &Request) -> usize {
    let (_folder, root) = tree(name);
    let plan = planned(&root, request);
    let mut files = Faulty::new(&root, usize::MAX, Fault::Refused);
    apply(&mut files, &plan, &assign(), &journal(&root)).expect("applied");
    files.writes
}

#[test]
fn a_tree_is_byte_identical_after_apply_and_restore() {
    for (name, request) in cases() {
        let (_folder, root) = tree(name);
        let before = bytes(&root);
        let plan = planned(&root, &request);
        applied(&root, &plan).expect("applied");
        assert_ne!(bytes(&root), before, "{name}");
        assert!(!restored(&root).changes.is_empty());
        assert_eq!(bytes(&root), before, "{name}");
        assert!(restored(&root).nothing, "{name}");
    }
}

#[test]
fn a_second_plan_waits_for_restore() {
    let (_folder, root) = tree("amd");
    let plan = planned(&root, &request(false));
    applied(&root, &plan).expect("applied");
    // Not even with other names: the first journal would be lost.
    let mut other = plan.clone();
    other.classes[0].name = "other".to_owned();
    let before = bytes(&root);
    let error = applied(&root, &other).expect_err("refused").to_string();
    assert!(error.contains("restore"), "{error}");
    assert_eq!(bytes(&root), before);
}

#[test]
fn a_death_before_any_write_is_mended() {
    for (name, request) in cases() {
        for at in 0..writes(name, &request) {
            let (_folder, root) = tree(name);
            let before = bytes(&root);
            let plan = planned(&root, &request);
            let mut files = Faulty::new(&root, at, Fault::Dead);
            let died = catch_unwind(AssertUnwindSafe(|| {
                apply(&mut files, &plan, &assign(), &journal(&root))
            }));
            assert!(died.is_err(), "{name}: write {at}");
            restored(&root);
            assert_eq!(bytes(&root), before, "{name}: write {at}");
        }
    }
}

#[test]
fn a_death_while_restoring_is_mended() {
    for (name, request) in cases() {
        for at in 0.. {
            let (_folder, root) = tree(name);
            let before = bytes(&root);
            let plan = planned(&root, &request);
            applied(&root, &plan).expect("applied");
            let mut files = Faulty::new(&root, at, Fault::Dead);
            let ended = catch_unwind(AssertUnwindSafe(|| {
                restore(&mut files, &journal(&root), false).expect("restored")
            }));
            restored(&root);
            assert_eq!(bytes(&root), before, "{name}: write {at}");
            if ended.is_ok() {
                assert!(at > 1);
                break;
            }
        }
    }
}

#[test]
fn a_refusal_leaves_the_old_masks_and_one_line() {
    for (name, request) in cases() {
        for at in 0..writes(name, &request) {
            let (_folder, root) = tree(name);
            let before = bytes(&root);
            let plan = planned(&root, &request);
            let mut files = Faulty::new(&root, at, Fault::Refused);
            let error = apply(&mut files, &plan, &assign(), &journal(&root));
            let error = error.expect_err("refused");
            assert!(!error.is_input());
            let line = error.to_string();
            assert!(line.contains("the old masks are back") && !line.contains('\n'), "{line}");
            assert_eq!(bytes(&root), before, "{name}: write {at}");
            assert!(restored(&root).nothing);
        }
    }
}

#[test]
fn a_tree_that_vanishes_is_mended_once_it_is_back() {
    for (name, request) in cases() {
        for at in 0..writes(name, &request) {
            let (_folder, root) = tree(name);
            let before = bytes(&root);
            let plan = planned(&root, &request);
            let mut files = Faulty::new(&root, at, Fault::Gone);
            let error = apply(&mut files, &plan, &assign(), &journal(&root));
            let line = error.expect_err("gone").to_string();
            // Nothing had been written before the first write.
            if at > 0 {
                assert!(line.contains("stays for `restore`") && !line.contains('\n'), "{line}");
            }
            assert!(!root.exists());
            fs::rename(Faulty::elsewhere(&root), &root).expect("back");
            restored(&root);
            assert_eq!(bytes(&root), before, "{name}: write {at}");
        }
    }
}

#[test]
fn what_somebody_else_changed_is_not_written_over() {
    let edits: [(&str, &str, &str); 3] = [
        ("schemata", "    MB:0=2048;1=2048\n    L3:0=00ff;1=fff0\n", "schemata"),
        ("halfwink-kernel/schemata", "    MB:0=2048;1=2048\n    L3:0=0001;1=000f\n", "kernel"),
        (
            "info/kernel_mode",
            "inherit_ctrl_and_mon:group=none\n\
             [global_assign_ctrl_inherit_mon_per_cpu:group=batch//]\n\
             global_assign_ctrl_assign_mon_per_cpu:group=none\n",
            "kernel_mode",
        ),
    ];
    for (path, text, named) in edits {
        let (_folder, root) = tree("amd");
        let before = bytes(&root);
        let plan = planned(&root, &request(false));
        applied(&root, &plan).expect("applied");
        fs::write(root.join(path), text).expect("edited");
        let edited = bytes(&root);
        let mut files = open(&root).expect("a tree");
        let error = restore(files.as_mut(), &journal(&root), false).expect_err("changed");
        assert!(matches!(error, Error::Changed(_)) && error.is_input(), "{error}");
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(bytes(&root), edited);
        restore(files.as_mut(), &journal(&root), true).expect("forced");
        assert_eq!(bytes(&root), before, "{path}");
    }
}

#[test]
fn a_kernel_class_of_before_is_bound_again() {
    let (_folder, root) = tree("amd");
    let mut files = open(&root).expect("a tree");
    let bind = "global_assign_ctrl_assign_mon_per_cpu:group=batch//";
    files.write("info/kernel_mode", bind).expect("bound");
    files.write("batch/kmode_cpus_list", "0-3").expect("narrowed");
    let before = bytes(&root);
    let plan = planned(&root, &request(true));
    assert!(plan.notes.iter().any(|note| note.contains("restore binds it back")));
    applied(&root, &plan).expect("applied");
    assert!(!root.join("batch/kmode_cpus_list").exists());
    restored(&root);
    assert_eq!(bytes(&root), before);
}

#[test]
fn a_journal_of_another_tree_is_refused() {
    let (_folder, root) = tree("amd");
    applied(&root, &planned(&root, &request(false))).expect("applied");
    let (_other_folder, other) = tree("amd");
    let mut files = open(&other).expect("a tree");
    let error = restore(files.as_mut(), &journal(&root), false).expect_err("of another tree");
    assert!(error.to_string().contains("the journal is of"), "{error}");
}

/// Applies in a process of its own, which stops before a write; see below.
#[test]
#[ignore = "a part of the next test"]
fn child_that_is_killed() {
    let (Ok(root), Ok(at)) = (std::env::var("RESCTRL_ROOT"), std::env::var("RESCTRL_AT")) else {
        return;
    };
    let root = PathBuf::from(root);
    let plan = planned(&root, &request(true));
    let mut files = Faulty::new(&root, at.parse().expect("a number"), Fault::Stuck);
    apply(&mut files, &plan, &assign(), &journal(&root)).expect("applied");
}

#[test]
fn kill_9_before_any_write_is_mended() {
    for name in ["intel", "amd", "arm"] {
        for at in 0..writes(name, &request(true)) {
            let (_folder, root) = tree(name);
            let before = bytes(&root);
            let mut child = Command::new(std::env::current_exe().expect("this test"))
                .args(["--exact", "journal::child_that_is_killed", "--ignored"])
                .env("RESCTRL_ROOT", &root)
                .env("RESCTRL_AT", at.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a process");
            let begun = Instant::now();
            while !Faulty::marker(&root).exists() {
                assert!(begun.elapsed() < Duration::from_secs(120), "{name}: write {at}");
                assert!(child.try_wait().expect("its state").is_none(), "{name}: write {at}");
                std::thread::sleep(Duration::from_millis(2));
            }
            child.kill().expect("SIGKILL");
            child.wait().expect("it ended");
            assert!(journal(&root).exists(), "the journal is there before write {at}");
            restored(&root);
            assert_eq!(bytes(&root), before, "{name}: write {at}");
        }
    }
}

/// Applies and restores again and again in a process of its own, until it is killed.
#[test]
#[ignore = "a part of the next test"]
fn child_that_never_rests() {
    let Ok(root) = std::env::var("RESCTRL_ROOT") else { return };
    let root = PathBuf::from(root);
    let plan = planned(&root, &request(true));
    loop {
        applied(&root, &plan).expect("applied");
        restored(&root);
    }
}

#[test]
fn kill_9_at_any_moment_is_mended() {
    for round in 0..40u64 {
        let (_folder, root) = tree("amd");
        let mut files = open(&root).expect("a tree");
        let bind = "global_assign_ctrl_inherit_mon_per_cpu:group=batch//";
        files.write("info/kernel_mode", bind).expect("bound");
        let before = bytes(&root);
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "journal::child_that_never_rests", "--ignored"])
            .env("RESCTRL_ROOT", &root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let begun = Instant::now();
        while !journal(&root).exists() && begun.elapsed() < Duration::from_secs(120) {
            std::thread::yield_now();
        }
        // From the first journal on: anywhere in some rounds of writes.
        std::thread::sleep(Duration::from_micros(round * 371 % 9_000));
        assert!(child.try_wait().expect("its state").is_none(), "round {round}");
        child.kill().expect("SIGKILL");
        child.wait().expect("it ended");
        restored(&root);
        // Where nothing was left to restore, opening the tree swept the scratch folder away.
        assert_eq!(bytes(&root), before, "round {round}");
    }
}

#[test]
fn a_death_while_a_kernel_class_is_bound_again_is_mended() {
    for at in 0..6 {
        let (_folder, root) = tree("amd");
        let mut files = open(&root).expect("a tree");
        let bind = "global_assign_ctrl_assign_mon_per_cpu:group=batch//";
        files.write("info/kernel_mode", bind).expect("bound");
        files.write("batch/kmode_cpus_list", "0-3").expect("narrowed");
        let before = bytes(&root);
        applied(&root, &planned(&root, &request(true))).expect("applied");
        let mut dying = Faulty::new(&root, at, Fault::Dead);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            restore(&mut dying, &journal(&root), false).expect("restored")
        }));
        // The mode, its CPUs, the rest's masks, three groups.
        assert!(ended.is_err(), "write {at}");
        restored(&root);
        assert_eq!(bytes(&root), before, "write {at}");
    }
}

/// A tree whose journal cannot be written again once the first step was taken.
struct Unfinished {
    inner: Box<dyn Files>,
    beside: PathBuf,
}

impl Files for Unfinished {
    fn root(&self) -> &Path {
        self.inner.root()
    }

    fn is_mounted(&self) -> bool {
        self.inner.is_mounted()
    }

    fn write(&mut self, path: &str, text: &str) -> std::io::Result<()> {
        // A folder in the place of the file that the journal is written to first.
        fs::create_dir_all(&self.beside)?;
        self.inner.write(path, text)
    }

    fn make_group(&mut self, name: &str) -> std::io::Result<()> {
        self.inner.make_group(name)
    }

    fn remove_group(&mut self, name: &str) -> std::io::Result<()> {
        self.inner.remove_group(name)
    }
}

#[test]
fn journal_that_cannot_be_finished_leaves_the_old_masks() {
    let (_folder, root) = tree("intel");
    let before = bytes(&root);
    let plan = planned(&root, &request(true));
    let beside = PathBuf::from(format!("{}.{}", journal(&root).display(), std::process::id()));
    let mut files = Unfinished { inner: open(&root).expect("a tree"), beside };
    let error = apply(&mut files, &plan, &assign(), &journal(&root)).expect_err("refused");
    let line = error.to_string();
    assert!(line.contains("the old masks are back") && !line.contains('\n'), "{line}");
    assert!(!error.is_input());
    assert_eq!(bytes(&root), before);
    assert!(restored(&root).nothing);
}
