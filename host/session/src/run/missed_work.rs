//! Work that a session could not do: refused calls, changes that failed (a full disk, a directory without write
//! permission), changes that failed through the model's mistake, and changes whose call was cut off. Each counts
//! until the same work succeeds.
//!
//! `judge` decides the outcome of the session from them.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::checks;
use tool_core::api::Effect;
use tool_core::text::quote_name;
use tool_repository::path;

/// All missed work, in order.
#[derive(Debug, Default)]
pub(super) struct MissedWork {
    pub(super) denials: Vec<DeniedCall>,
    pub(super) cut_offs: Vec<CutOff>,
    /// True once the tests were run, for the model or by the host.
    has_tested: bool,
}

/// A call that the policy or the user refused, or a change that the system refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeniedCall {
    pub(super) skill: String,
    /// Path that the call named.
    pub(super) path: Option<String>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) kind: RefusedPurpose,
    /// True if the call failed without a refusal.
    pub(super) has_failed: bool,
    /// True for a change that failed through the model's mistake: its `old` text is not in the file, or its path is
    /// outside. It fails the session only if no file was changed.
    pub(super) is_mistake: bool,
    /// True if the user refused. That user needs no hint on how to allow it.
    pub(super) by_user: bool,
    /// True once the same work succeeded.
    pub(super) is_made_good: bool,
}

/// Purpose of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedPurpose {
    /// Reading.
    Reads,
    /// Changing files, which is the purpose of refactor and test-gen.
    Writes,
    /// Another effect: running tests, committing, installing.
    Acts,
}

/// A change of files that was lost because its call was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutOff {
    pub(super) skill: String,
    /// Path, if it arrived before the end.
    pub(super) path: Option<String>,
}

impl RefusedPurpose {
    /// The purpose of calls with these effects.
    pub(super) fn from_effects(effects: &[Effect]) -> Self {
        match changing_effect(effects) {
            Some(Effect::WriteRepository) => Self::Writes,
            Some(_) => Self::Acts,
            None => Self::Reads,
        }
    }
}

fn changing_effect(effects: &[Effect]) -> Option<Effect> {
    effects.iter().copied().find(|effect| effect.changes_something())
}

impl DeniedCall {
    pub(super) fn verb(&self) -> &'static str {
        if self.has_failed { "failed" } else { "was refused" }
    }

    pub(super) fn sentence(&self) -> String {
        let sentence = self.about(&format!("`{}`", self.skill));
        match sentence.strip_prefix("you") {
            Some(rest) => format!("You{rest}"),
            None => sentence,
        }
    }

    /// Explains why `what` was not done.
    pub(super) fn about(&self, what: &str) -> String {
        if self.by_user {
            format!("you refused {what}")
        } else {
            format!("{what} {}: {}", self.verb(), self.message)
        }
    }
}

impl MissedWork {
    /// Records a denial; `grant` says how to allow an effect. If the host has run the tests, a denied test run counts
    /// as done.
    pub(super) fn deny(&mut self, mut denial: DeniedCall, effects: &[Effect], grant: impl Fn(Effect) -> String) {
        if denial.by_user {
            denial.hint = None;
        } else if let (RefusedPurpose::Acts, false, Some(effect)) =
            (denial.kind, denial.has_failed, changing_effect(effects))
        {
            denial
                .hint
                .get_or_insert_with(|| format!("allow it with {}", grant(effect)));
        }
        denial.is_made_good = denial.skill == checks::SKILL && self.has_tested;
        self.denials.push(denial);
    }

    /// Records a change that was cut off.
    pub(super) fn cut_off(&mut self, skill: &str, path: Option<String>) {
        self.cut_offs.push(CutOff {
            skill: skill.to_owned(),
            path,
        });
    }

    /// Missed work of one purpose that did not succeed later, in order.
    pub(super) fn open(&self, purpose: RefusedPurpose) -> impl Iterator<Item = &DeniedCall> {
        let is_open = move |denial: &&DeniedCall| denial.kind == purpose && !denial.is_made_good;
        self.denials.iter().filter(is_open)
    }

    /// A line about changes whose last attempt failed; may be empty.
    pub(super) fn line(&self) -> String {
        let name = |denial: &DeniedCall| match &denial.path {
            Some(path) => quote_name(path),
            None => format!("a call of {} without a path", quote_name(&denial.skill)),
        };
        let names: BTreeSet<String> = self.open(RefusedPurpose::Writes).map(name).collect();
        if names.is_empty() {
            return String::new();
        }
        let names: Vec<String> = names.into_iter().collect();
        format!("- Not changed, because the last attempt failed: {}\n", names.join(", "))
    }

    /// Records a call that succeeded, which settles earlier failures of the same work.
    pub(super) fn done(&mut self, skill: &str, kind: RefusedPurpose, named: Option<&str>, changed: &[String]) {
        self.has_tested |= skill == checks::SKILL;
        match kind {
            RefusedPurpose::Reads => {}
            RefusedPurpose::Acts => {
                let same = self.denials.iter_mut().filter(|denial| denial.skill == skill);
                same.for_each(|denial| denial.is_made_good = true);
            }
            RefusedPurpose::Writes => {
                let covers = |path: &Option<String>| match path {
                    Some(path) => named == Some(path.as_str()) || changed.contains(path),
                    None => true,
                };
                let writes = self
                    .denials
                    .iter_mut()
                    .filter(|denial| denial.kind == RefusedPurpose::Writes);
                writes
                    .filter(|denial| covers(&denial.path))
                    .for_each(|denial| denial.is_made_good = true);
                self.cut_offs.retain(|cut_off| !covers(&cut_off.path));
            }
        }
    }
}

/// The path within `root` that arguments name, even if they are cut off after it.
pub(super) fn path_of(root: &Path, arguments: &str) -> Option<String> {
    let found = text_field(arguments, "path")?;
    Some(path::normalise_inside(root, &found).unwrap_or(found))
}

/// A text field of a call's arguments. Also reads JSON that is cut off after the field.
pub(super) fn text_field(arguments: &str, name: &str) -> Option<String> {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value) => value.get(name).and_then(Value::as_str).map(str::to_owned),
        Err(_) => {
            let (_, rest) = arguments.split_once(&format!("\"{name}\""))?;
            let rest = rest.trim_start().strip_prefix(':')?;
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            values.next().and_then(Result::ok)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(skill: &str, path: Option<&str>, kind: RefusedPurpose) -> DeniedCall {
        DeniedCall {
            skill: skill.into(),
            path: path.map(str::to_owned),
            message: "no".into(),
            hint: None,
            kind,
            has_failed: false,
            is_mistake: false,
            by_user: false,
            is_made_good: false,
        }
    }

    #[test]
    fn a_path_is_read_as_far_as_it_came() {
        let path = |arguments| path_of(Path::new("/shop"), arguments).unwrap_or_default();
        assert_eq!(path(r#"{"path": "/shop/src/a.py"}"#), "src/a.py");
        assert_eq!(path(r#"{"path": "./src/a.py", "content": "x"}"#), "src/a.py");
        assert_eq!(
            path(r#"{"path": "src/\u0061.py", "content": "\"path\": \"b"#),
            "src/a.py"
        );
        assert_eq!(path(r#"{"content": "\"path\": \"b\""#), "");
        assert_eq!(path(r#"{"path": "src/"#), "");
    }

    fn grant(effect: Effect) -> String {
        format!("`--allow {effect}`")
    }

    #[test]
    fn only_the_same_makes_up_for_what_was_missed_and_only_later() {
        let mut missed = MissedWork::default();
        missed.done("write_file", RefusedPurpose::Writes, Some("a.py"), &["a.py".into()]);
        missed.deny(denial("write_file", Some("a.py"), RefusedPurpose::Writes), &[], grant);
        missed.deny(
            denial("git_commit", None, RefusedPurpose::Acts),
            &[Effect::CommitGit],
            grant,
        );
        missed.cut_off("write_file", Some("b.py".into()));
        missed.done("write_file", RefusedPurpose::Writes, Some("c.py"), &["c.py".into()]);
        missed.done("run_tests", RefusedPurpose::Acts, None, &[]);
        assert!(missed.denials.iter().all(|denial| !denial.is_made_good));
        assert_eq!(
            missed.denials[1].hint.as_deref(),
            Some("allow it with `--allow commit-git`")
        );
        assert_eq!(missed.cut_offs.len(), 1);
        missed.done("write_file", RefusedPurpose::Writes, Some("b.py"), &[]);
        missed.done("write_file", RefusedPurpose::Writes, Some("a.py"), &["a.py".into()]);
        missed.done("git_commit", RefusedPurpose::Acts, None, &[]);
        assert!(missed.denials.iter().all(|denial| denial.is_made_good));
        assert!(missed.cut_offs.is_empty());
    }

    #[test]
    fn who_has_refused_something_is_not_told_how_to_allow_it() {
        let mut missed = MissedWork::default();
        let mut refused = denial("git_commit", None, RefusedPurpose::Acts);
        (refused.by_user, refused.hint) = (true, Some("do not ask again for the same".into()));
        missed.deny(refused, &[Effect::CommitGit], grant);
        assert_eq!(missed.denials[0].hint, None);
        assert_eq!(missed.denials[0].sentence(), "You refused `git_commit`");
    }

    #[test]
    fn tests_that_were_run_make_up_for_a_refused_run_before_and_after() {
        let mut missed = MissedWork::default();
        missed.deny(
            denial("run_tests", None, RefusedPurpose::Acts),
            &[Effect::RunProcess],
            grant,
        );
        missed.done("run_tests", RefusedPurpose::Acts, None, &[]);
        missed.deny(
            denial("run_tests", None, RefusedPurpose::Acts),
            &[Effect::RunProcess],
            grant,
        );
        assert!(missed.denials.iter().all(|denial| denial.is_made_good));
    }
}
