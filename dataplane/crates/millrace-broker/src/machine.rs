//! The machine's resources: a seam, so that tests can replace them.

use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
};

/// The machine, or the part of it that this process may use.
pub trait Machine: Debug + Send + Sync + 'static {
    /// Memory in bytes; `u64::MAX` where that cannot be told.
    fn memory_bytes(&self) -> u64;
}

/// The machine that this process runs on, as Linux tells it: the smallest of its memory and of the
/// bounds of the control groups (both versions) that the process is in.
#[derive(Debug, Clone)]
pub struct ThisMachine {
    root: PathBuf,
}

impl Default for ThisMachine {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

impl Machine for ThisMachine {
    fn memory_bytes(&self) -> u64 {
        let groups = fs::read_to_string(self.root.join("proc/self/cgroup")).unwrap_or_default();
        let bounds = groups.lines().filter_map(|line| self.group_bound(line));
        bounds.chain(self.total()).min().unwrap_or(u64::MAX)
    }
}

impl ThisMachine {
    fn total(&self) -> Option<u64> {
        let text = fs::read_to_string(self.root.join("proc/meminfo")).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1_024)
    }

    /// The least bound of a group and those above it; the line is `number:controllers:path`.
    fn group_bound(&self, line: &str) -> Option<u64> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (mount, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let mount = self.root.join(mount);
        let own = mount.join(path.trim_start_matches('/'));
        own.ancestors()
            .take_while(|group| group.starts_with(&mount))
            .filter_map(|group| bound_in(&group.join(file)))
            .min()
    }
}

/// `max`, which stands for no bound, is no number.
fn bound_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, u64) {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            fs::write(path, text).expect("writable");
        }
        let machine = ThisMachine {
            root: root.path().to_owned(),
        };
        let bytes = machine.memory_bytes();
        (root, bytes)
    }

    const TOTAL: (&str, &str) = ("proc/meminfo", "MemTotal:  16384 kB\nMemFree: 1 kB\n");

    #[test]
    fn the_least_of_the_machine_and_its_groups_counts() {
        assert_eq!(machine(&[TOTAL]).1, 16_777_216);
        let second = [
            TOTAL,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.max", "4096\n"),
            ("sys/fs/cgroup/a/b/memory.max", "8192\n"),
        ];
        assert_eq!(machine(&second).1, 4_096, "a group above bounds it too");
        let first = [
            TOTAL,
            ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "12288\n"),
        ];
        assert_eq!(machine(&first).1, 12_288);
    }

    #[test]
    fn what_cannot_be_read_bounds_nothing() {
        assert_eq!(machine(&[]).1, u64::MAX);
        let odd = [
            ("proc/meminfo", "MemTotal: many\n"),
            ("proc/self/cgroup", "odd\n0::\n"),
        ];
        assert_eq!(machine(&odd).1, u64::MAX);
    }

    #[test]
    fn this_machine_has_some() {
        let bytes = ThisMachine::default().memory_bytes();
        assert!((1 << 20..u64::MAX).contains(&bytes), "{bytes}");
    }
}
