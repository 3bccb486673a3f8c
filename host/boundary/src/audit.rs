//! Records what the calls of a skill use while they run, and compares it with what the skill is granted.
//!
//! A recorded call changes nothing: the host notes the content of its stage and drops it, and denies and notes runs and
//! commits. So calls that a repository has seen before can be repeated for an audit.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::{CallReport, Limits};
use tool_core::api::Effect;
use tool_repository::path::split_path;

/// Paths of each kind that an audit keeps. A skill that touches more touches everything.
const AUDIT_PATHS_MAX: usize = 10_000;

/// Globs in one list of an audit: fewer say less, and more are too many to read.
const GLOBS_MAX: usize = 12;

/// Notes what calls do. All calls of one audit share it.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<AuditRecord>);

#[derive(Debug, Default, Clone)]
struct AuditRecord {
    effects: BTreeSet<Effect>,
    read: BTreeSet<String>,
    listed: BTreeSet<String>,
    staged: BTreeSet<String>,
    is_cut: bool,
    calls: usize,
    failed: usize,
    wall_us: u64,
    memory_bytes: u64,
    read_bytes: u64,
    answer_bytes: u64,
}

/// The smallest policy that would have been enough, and how it compares with the granted one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// The skill.
    pub skill: String,
    /// Number of calls.
    pub calls: usize,
    /// Number of calls that failed.
    pub failed: usize,
    /// Effects that were used or asked for.
    pub used: Vec<Effect>,
    /// Effects that are granted and that no call used.
    pub superfluous: Vec<Effect>,
    /// Globs of the files that were read.
    pub read: Vec<String>,
    /// Globs of the directories that were listed.
    pub listed: Vec<String>,
    /// Globs of the files that were proposed.
    pub staged: Vec<String>,
    /// True if there were more paths than are kept.
    pub is_cut: bool,
    /// Largest use of each resource by one call.
    pub peak: Peak,
}

/// Largest use of each resource by one call, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Wall time in microseconds.
    pub wall_us: u64,
    /// Limit in microseconds.
    pub wall_us_max: u64,
    /// Linear memory in bytes.
    pub memory_bytes: u64,
    /// Limit in bytes.
    pub memory_bytes_max: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Limit in bytes.
    pub read_bytes_max: u64,
    /// Bytes of the answer.
    pub answer_bytes: u64,
    /// Limit in bytes.
    pub answer_bytes_max: u64,
}

impl Recorder {
    fn note(&self, note: impl FnOnce(&mut AuditRecord)) {
        note(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn effect(&self, effect: Effect) {
        self.note(|noted| {
            noted.effects.insert(effect);
        });
    }

    pub(super) fn read(&self, path: &str) {
        self.note(|noted| {
            noted.effects.insert(Effect::ReadRepository);
            insert_path(&mut noted.read, path, &mut noted.is_cut);
        });
    }

    pub(super) fn listed(&self, directory: &str, is_recursive: bool) {
        let depth = if is_recursive { "**" } else { "*" };
        let glob = match directory.trim_matches('/') {
            "" | "." => depth.to_owned(),
            directory => format!("{directory}/{depth}"),
        };
        self.note(|noted| {
            noted.effects.insert(Effect::ReadRepository);
            insert_path(&mut noted.listed, &glob, &mut noted.is_cut);
        });
    }

    pub(super) fn staged(&self, paths: &[String]) {
        self.note(|noted| {
            if !paths.is_empty() {
                noted.effects.insert(Effect::WriteRepository);
            }
            for path in paths {
                insert_path(&mut noted.staged, path, &mut noted.is_cut);
            }
        });
    }

    /// Counts a call that has ended.
    pub fn ended(&self, report: &CallReport) {
        self.note(|noted| {
            noted.calls += 1;
            noted.failed += usize::from(report.result.is_err());
            let Some(receipt) = &report.receipt else { return };
            noted.wall_us = noted.wall_us.max(receipt.wall_us);
            noted.memory_bytes = noted.memory_bytes.max(receipt.peak_memory_bytes);
            noted.read_bytes = noted.read_bytes.max(receipt.bytes_in);
            noted.answer_bytes = noted.answer_bytes.max(receipt.bytes_out);
        });
    }

    /// Compares the recorded use with what the skill is granted.
    pub fn audit(&self, skill: &str, granted: &[Effect]) -> Audit {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let bounds = Limits::default();
        Audit {
            skill: skill.to_owned(),
            calls: noted.calls,
            failed: noted.failed,
            superfluous: granted
                .iter()
                .copied()
                .filter(|effect| !noted.effects.contains(effect))
                .collect(),
            used: noted.effects.into_iter().collect(),
            read: cover_with_globs(&noted.read),
            listed: drop_covered(noted.listed),
            staged: cover_with_globs(&noted.staged),
            is_cut: noted.is_cut,
            peak: Peak {
                wall_us: noted.wall_us,
                wall_us_max: u64::try_from(bounds.wall.as_micros()).unwrap_or(u64::MAX),
                memory_bytes: noted.memory_bytes,
                memory_bytes_max: bounds.memory_bytes,
                read_bytes: noted.read_bytes,
                read_bytes_max: bounds.read_bytes,
                answer_bytes: noted.answer_bytes,
                answer_bytes_max: bounds.output_bytes as u64,
            },
        }
    }
}

/// Adds a path up to the limit; sets `is_cut` if a path is left out.
fn insert_path(paths: &mut BTreeSet<String>, path: &str, is_cut: &mut bool) {
    if paths.len() < AUDIT_PATHS_MAX {
        paths.insert(path.to_owned());
    } else {
        *is_cut |= !paths.contains(path);
    }
}

/// Returns few and narrow globs that cover all paths: the files themselves, or else one for each extension in each
/// directory, in each top directory, or one for everything in each top directory.
fn cover_with_globs(paths: &BTreeSet<String>) -> Vec<String> {
    let levels: [fn(&str) -> String; 5] = [
        ToOwned::to_owned,
        |path| match split_path(path) {
            ("", name) => format!("*{}", find_extension(name)),
            (directory, name) => format!("{directory}/*{}", find_extension(name)),
        },
        |path| match path.split_once('/') {
            None => format!("*{}", find_extension(path)),
            Some((top, rest)) => format!("{top}/**/*{}", find_extension(split_path(rest).1)),
        },
        |path| match path.split_once('/') {
            None => "*".to_owned(),
            Some((top, _)) => format!("{top}/**"),
        },
        |_| "**".to_owned(),
    ];
    let mut globs = BTreeSet::new();
    for level in levels {
        globs = paths.iter().map(|path| level(path)).collect();
        if globs.len() <= GLOBS_MAX {
            break;
        }
    }
    globs.into_iter().collect()
}

/// Removes globs that a recursive one covers.
fn drop_covered(listed: BTreeSet<String>) -> Vec<String> {
    let wide: Vec<String> = listed
        .iter()
        .filter_map(|glob| Some(glob.strip_suffix("**")?.to_owned()))
        .collect();
    let is_covered = |glob: &String| {
        let mut wider = wide.iter().filter(|wide| *glob != format!("{wide}**"));
        wider.any(|wide| glob.starts_with(wide.as_str()))
    };
    let narrow: BTreeSet<String> = listed.iter().filter(|glob| !is_covered(glob)).cloned().collect();
    let top = |glob: String| match glob.split_once('/') {
        Some((top, _)) => format!("{top}/**"),
        None => glob,
    };
    let few: BTreeSet<String> = if narrow.len() <= GLOBS_MAX {
        narrow
    } else {
        narrow.into_iter().map(top).collect()
    };
    if few.len() <= GLOBS_MAX {
        few.into_iter().collect()
    } else {
        vec!["**".to_owned()]
    }
}

/// Extension with its dot; empty if there is none, or if the name only begins with a dot.
fn find_extension(name: &str) -> &str {
    match name.rfind('.') {
        Some(at) if at > 0 => &name[at..],
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        paths.into_iter().collect()
    }

    fn covers(globs: &[String], paths: &BTreeSet<String>) -> bool {
        let matchers: Vec<_> = globs
            .iter()
            .map(|glob| {
                let built = globset::GlobBuilder::new(glob).literal_separator(true).build();
                built.expect("it is a glob").compile_matcher()
            })
            .collect();
        paths.iter().all(|path| matchers.iter().any(|glob| glob.is_match(path)))
    }

    #[test]
    fn paths_become_the_narrowest_few_globs_that_cover_them() {
        let few = set(["a.py".to_owned(), "src/b.py".to_owned()]);
        assert_eq!(cover_with_globs(&few), ["a.py", "src/b.py"]);
        let flat = set((0..50).map(|at| format!("src/{at}.py")));
        assert_eq!(cover_with_globs(&flat), ["src/*.py"]);
        let deep = set((0..50).map(|at| format!("src/{at}/x.py")));
        assert_eq!(cover_with_globs(&deep), ["src/**/*.py"]);
        let kinds = set((0..50).map(|at| format!("src/{at}/x.{at}")));
        assert_eq!(cover_with_globs(&kinds), ["src/**"]);
        let wide = set((0..50).map(|at| format!("{at}/x")));
        assert_eq!(cover_with_globs(&wide), ["**"]);
        for paths in [few, flat, deep, kinds, wide] {
            assert!(covers(&cover_with_globs(&paths), &paths), "{paths:?}");
        }
        assert_eq!(cover_with_globs(&BTreeSet::new()), [""; 0]);
    }

    #[test]
    fn lists_within_others_are_not_told() {
        let recorder = Recorder::default();
        recorder.listed("src/deep", false);
        recorder.listed("src", true);
        recorder.listed("docs/", false);
        assert_eq!(recorder.audit("x", &[]).listed, ["docs/*", "src/**"]);
        recorder.listed("", true);
        assert_eq!(recorder.audit("x", &[]).listed, ["**"]);
    }

    #[test]
    fn what_nobody_used_is_superfluous() {
        let recorder = Recorder::default();
        recorder.read("a.py");
        recorder.effect(Effect::Install);
        let audit = recorder.audit("x", &[Effect::ReadRepository, Effect::WriteRepository]);
        assert_eq!(audit.used, [Effect::ReadRepository, Effect::Install]);
        assert_eq!(audit.superfluous, [Effect::WriteRepository]);
        recorder.staged(&["b.py".to_owned()]);
        let audit = recorder.audit("x", &[Effect::ReadRepository, Effect::WriteRepository]);
        assert!(audit.superfluous.is_empty());
        assert_eq!(audit.staged, ["b.py"]);
    }

    #[test]
    fn so_many_paths_are_kept() {
        let recorder = Recorder::default();
        for number in 0..AUDIT_PATHS_MAX {
            recorder.read(&format!("{number}.py"));
        }
        assert!(!recorder.audit("x", &[]).is_cut);
        recorder.read("0.py");
        assert!(!recorder.audit("x", &[]).is_cut, "it is known");
        recorder.read("one more");
        assert!(recorder.audit("x", &[]).is_cut);
    }
}
