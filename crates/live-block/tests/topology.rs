//! Machines as sysfs shows them, odd ones too.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::path::Path;

use halfwink_live_block::topology::{list, Machine, SYSFS};
use halfwink_policy::completion::Group;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(online: Option<&str>) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        online.iter().for_each(|text| fs::write(tree.0.path().join("online"), text).unwrap());
        tree
    }

    /// A CPU of a package, with caches: level, type, who shares.
    fn cpu(&self, cpu: u32, package: Option<i64>, caches: &[(u32, &str, &str)]) {
        let own = self.0.path().join(format!("cpu{cpu}"));
        fs::create_dir_all(own.join("topology")).unwrap();
        if let Some(package) = package {
            let path = own.join("topology/physical_package_id");
            fs::write(path, format!("{package}\n")).unwrap();
        }
        for (number, (level, kind, shared)) in caches.iter().enumerate() {
            let index = own.join(format!("cache/index{number}"));
            fs::create_dir_all(&index).unwrap();
            let files =
                [("level", level.to_string()), ("type", (*kind).into()), ("size", "32K".into())];
            for (name, text) in files {
                fs::write(index.join(name), text + "\n").unwrap();
            }
            fs::write(index.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
        }
    }

    fn groups(&self) -> (Vec<Vec<u16>>, Vec<Vec<u16>>) {
        let topology = Machine::read(self.0.path()).unwrap().topology();
        (topology.groups(Group::Socket), topology.groups(Group::Cache))
    }
}

#[test]
fn cpu_list_is_read_or_refused() {
    assert_eq!(list("0-2,8,10-11\n"), Ok(vec![0, 1, 2, 8, 10, 11]));
    assert_eq!(list("\n"), Ok(vec![]));
    assert_eq!(list("3,1-2,2"), Ok(vec![1, 2, 3]));
    for wrong in ["x", "1-", "3-1", "0-99999999", "1--2", "0x1"] {
        assert!(list(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn two_packages_one_with_two_caches() {
    let tree = Tree::new(Some("0-7\n"));
    for cpu in 0..8u32 {
        let shared = ["0-1", "2-3", "4-7", "4-7"][cpu as usize / 2];
        let caches = [(1, "Data", "9"), (1, "Instruction", "9"), (3, "Unified", shared)];
        tree.cpu(cpu, Some(i64::from(cpu / 4)), &caches);
    }
    let (sockets, caches) = tree.groups();
    assert_eq!(sockets, [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(caches, [vec![0, 1], vec![2, 3], vec![4, 5, 6, 7]]);
    let machine = Machine::read(tree.0.path()).unwrap();
    assert_eq!((machine.cpus[7].level, machine.cpus[7].cache_bytes), (Some(3), Some(32 << 10)));
    let some = machine.only(&[6, 1]).unwrap();
    assert_eq!(some.topology().groups(Group::Socket), [[0], [1]]);
    assert!(machine.only(&[8]).unwrap_err().contains("CPU 8"));
}

#[test]
fn cpus_that_are_offline_are_none() {
    let tree = Tree::new(Some("1,3\n"));
    for cpu in 0..4 {
        // The first that shares is offline; the kernel may name it all the same.
        tree.cpu(cpu, Some(0), &[(3, "Unified", "0-3")]);
    }
    let machine = Machine::read(tree.0.path()).unwrap();
    assert_eq!(machine.cpus.iter().map(|c| c.cpu).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(tree.groups().1, [[0, 1]]);
}

#[test]
fn cpus_without_a_shared_cache_are_groups_of_one() {
    let tree = Tree::new(Some("0-1\n"));
    for cpu in 0..2u32 {
        tree.cpu(cpu, Some(0), &[(2, "Unified", &cpu.to_string())]);
    }
    assert_eq!(tree.groups(), (vec![vec![0, 1]], vec![vec![0], vec![1]]));
}

#[test]
fn guest_without_topology_has_one_group() {
    // No list, no packages, no caches: all are together.
    let tree = Tree::new(None);
    (0..3).for_each(|cpu| tree.cpu(cpu, None, &[]));
    fs::create_dir(tree.0.path().join("cpufreq")).unwrap();
    assert_eq!(tree.groups(), (vec![vec![0, 1, 2]], vec![vec![0, 1, 2]]));
    // -1 is the kernel's word for unknown.
    let tree = Tree::new(Some("0-1"));
    (0..2).for_each(|cpu| tree.cpu(cpu, Some(-1), &[]));
    assert_eq!(tree.groups().0, [[0, 1]]);
}

#[test]
fn a_cache_that_spans_packages_is_one_for_each() {
    let tree = Tree::new(Some("0-3"));
    (0..4u32).for_each(|cpu| tree.cpu(cpu, Some(i64::from(cpu % 2)), &[(3, "Unified", "0-3")]));
    assert_eq!(tree.groups(), (vec![vec![0, 2], vec![1, 3]], vec![vec![0, 2], vec![1, 3]]));
}

#[test]
fn files_that_say_nonsense() {
    let tree = Tree::new(Some("zero"));
    assert!(Machine::read(tree.0.path()).unwrap_err().contains("expected CPUs"));
    let tree = Tree::new(Some(""));
    assert!(Machine::read(tree.0.path()).unwrap_err().contains("no CPU is online"));
    let tree = Tree::new(Some("0-1"));
    tree.cpu(0, Some(0), &[(3, "Unified", "all of them")]);
    tree.cpu(1, Some(0), &[(3, "Unified", "")]);
    assert_eq!(tree.groups().0, [[0, 1]]);
    assert!(Machine::read(Path::new("/nowhere")).unwrap_err().contains("/nowhere"));
}

#[test]
fn topology_of_this_machine_has_all_cpus() {
    let machine = Machine::read(Path::new(SYSFS)).unwrap();
    assert!(!machine.cpus.is_empty());
    assert_eq!(usize::from(machine.topology().cpus()), machine.cpus.len());
}
