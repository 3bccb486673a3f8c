//! A skill's own cases: what it is asked, and what must come of it.
//!
//! Its author writes them into `cases.toml`. Each is one call in the real sandbox, on a fresh copy of the folder
//! `fixture` beside the file; what comes of it is compared with what the case expects. A file that cannot be understood,
//! or that expects nothing, is an error which says the line: a suite that checks nothing must not look like one that
//! passes.

mod compare;
mod fixture;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toml::Spanned;

use super::policy::{Cause, Grant, Policy};
use super::{Arguments, CallContext, SessionFiles, SkillHost, Trial};
use crate::api::{PolicyRequest, Problem, Receipt};
use crate::config::nearest_key;
use crate::limits;
use crate::process::contain;
use crate::repository::{Options, Repository};
use compare::Came;

/// Name of the file.
pub const FILE: &str = "cases.toml";

/// Name of the folder beside it that each call gets a copy of.
pub const FIXTURE: &str = "fixture";

/// One case, as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows, in words.
    pub name: String,
    /// The arguments: a table, or the text of a JSON object.
    #[serde(default)]
    arguments: Option<toml::Value>,
    /// Effects that are granted beside reading.
    #[serde(default)]
    allow: Vec<String>,
    /// Effects that are denied.
    #[serde(default)]
    deny: Vec<String>,
    /// The whole answer, but for line breaks at its end.
    #[serde(default)]
    equals: Option<String>,
    /// Parts of the answer.
    #[serde(default)]
    contains: Texts,
    /// What the answer must not hold.
    #[serde(default)]
    lacks: Texts,
    /// A regular expression that matches somewhere in the answer.
    #[serde(default)]
    matches: Option<String>,
    /// The code of the failure that is expected instead of an answer; the texts are those of its message and hint.
    #[serde(default)]
    fails: Option<String>,
    /// The files that the call proposes and what is in them; `false` for one that it removes. Without it, none.
    #[serde(default)]
    files: BTreeMap<String, Proposed>,
}

/// One text or several.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
enum Texts {
    One(String),
    Several(Vec<String>),
}

impl Default for Texts {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Texts {
    fn all(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Several(texts) => texts,
        }
    }
}

/// What becomes of a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the text of the file, or `false` for one that is removed"
)]
enum Proposed {
    Text(String),
    /// Only `false` is meant.
    Removed(bool),
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    case: Vec<Spanned<Case>>,
}

/// Why cases cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CasesError {
    /// A file or a folder could not be read or written.
    #[error("`{}` could not be {action}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// `read`, `copied`, …
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Why, as a sentence's end.
        reason: String,
    },
    /// The file has no cases.
    #[error("`{}` holds no case", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The copy that a case works on cannot be a repository.
    #[error("the copy of `{}` is no repository: {reason}", path.display())]
    Fixture {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The folder of the cases is larger than what is copied for each of them.
    #[error("`{}` holds more than {max}, which is the most that is copied for each case", path.display())]
    TooLarge {
        /// The folder.
        path: PathBuf,
        /// The bound, in words.
        max: String,
    },
}

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// Its name.
    pub name: String,
    /// True where all came as it was expected.
    pub passed: bool,
    /// What differs, a sentence or a diff each.
    pub differences: Vec<String>,
    /// `ok`, or how the call failed.
    pub verdict: String,
    /// What the call cost; absent where nothing ran.
    pub receipt: Option<Receipt>,
}

/// Reads the cases in a skill's folder.
pub fn read(folder: &Path) -> Result<Vec<Case>, CasesError> {
    let path = folder.join(FILE);
    let io = |source| CasesError::Io {
        path: path.clone(),
        action: "read",
        source,
    };
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(io)?;
    file.take(limits::CASES_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(io)?;
    parse(&path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Case>, CasesError> {
    let at = |offset: usize, reason: String| CasesError::Line {
        path: path.to_owned(),
        line: line(text, offset),
        reason,
    };
    if text.len() as u64 > limits::CASES_BYTES_MAX {
        let max = limits::CASES_BYTES_MAX;
        return Err(at(text.len(), format!("the file is longer than {max} bytes")));
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        at(offset, reason(error.message()))
    })?;
    if file.case.is_empty() {
        return Err(CasesError::Empty { path: path.to_owned() });
    }
    if let Some(first) = file.case.get(limits::CASES_MAX) {
        let max = limits::CASES_MAX;
        return Err(at(first.span().start, format!("there are more than {max} cases")));
    }
    let mut cases: Vec<Case> = Vec::new();
    for case in file.case {
        let start = case.span().start;
        let case = case.into_inner();
        let is_known = cases.iter().any(|known| known.name == case.name);
        match is_known {
            true => return Err(at(start, format!("a second case is named `{}`", case.name))),
            false => case.check().map_err(|reason| at(start, reason))?,
        }
        cases.push(case);
    }
    Ok(cases)
}

/// The parser's words, with the key that was meant.
fn reason(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    match nearest_key(message) {
        Some(near) => format!("{first}; did you mean `{near}`?"),
        None => first.to_owned(),
    }
}

fn line(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

impl Case {
    /// What is wrong with it, as the end of a sentence.
    fn check(&self) -> Result<(), String> {
        if self.name.trim().is_empty() {
            return Err("a case has an empty name".to_owned());
        }
        let name = &self.name;
        let texts = self.contains.all().len() + self.lacks.all().len();
        let expects = self.equals.is_some() || self.matches.is_some() || self.fails.is_some() || !self.files.is_empty();
        if texts == 0 && !expects {
            return Err(format!(
                "the case `{name}` expects nothing: give it `equals`, `contains`, `lacks`, `matches`, `fails` or `files`"
            ));
        }
        if let Some(Err(error)) = self.matches.as_deref().map(regex::Regex::new) {
            let said = error.to_string();
            let last = said.lines().last().unwrap_or_default();
            return Err(format!(
                "`matches` of the case `{name}` is no regular expression: {last}"
            ));
        }
        if self.files.values().any(|file| *file == Proposed::Removed(true)) {
            return Err(format!(
                "a file of the case `{name}` is `true`: give its text, or `false` where it is removed"
            ));
        }
        for grant in self.allow.iter().chain(&self.deny) {
            grant.parse::<Grant>().map_err(|problem| in_one(&problem))?;
        }
        self.arguments()?;
        self.policy().map(|_| ()).map_err(|problem| in_one(&problem))
    }

    /// What the skill is called with. The error is a sentence; a case that was read has none.
    pub fn arguments(&self) -> Result<Value, String> {
        let unfit = |why: &str| Err(format!("`arguments` of the case `{}` {why}", self.name));
        match &self.arguments {
            None => Ok(Value::Object(Map::new())),
            Some(toml::Value::String(text)) => match serde_json::from_str(text) {
                Ok(value) => Ok(value),
                Err(error) => unfit(&format!("is not JSON: {error}")),
            },
            Some(table @ toml::Value::Table(_)) => Ok(json(table)),
            Some(_) => unfit("is neither a table nor the text of a JSON object"),
        }
    }

    fn policy(&self) -> Result<Policy, Problem> {
        let request = PolicyRequest {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            ..PolicyRequest::default()
        };
        Policy::new(Cause::SkillCall, &request)
    }

    /// Makes the call, on a copy of the fixture beneath `folder`, and compares what comes of it. Blocks.
    pub fn run(&self, host: &SkillHost, trial: &Trial, folder: &Path) -> Result<CaseResult, CasesError> {
        let source = folder.join(FIXTURE);
        let copy = fixture::copy(&source)?;
        let no_repository = |reason: String| CasesError::Fixture {
            path: source.clone(),
            reason,
        };
        let repository = Repository::open(copy.root(), &Options::default());
        let repository = repository.map_err(|error| no_repository(error.to_string()))?;
        let policy = self.policy().and_then(|policy| policy.contained(contain::available));
        let policy = policy.map_err(|problem| no_repository(in_one(&problem)))?;
        let arguments = self.arguments().map_err(no_repository)?;
        let mut context = CallContext::unattended(repository, policy);
        // As with `tool skill call`: what the author names, nobody has to read first.
        context.files = Arc::new(Mutex::new(SessionFiles::named_in(&arguments, &context.repository)));
        let context = Arc::new(context);
        let report = host.try_out(&context, trial, Arguments::Value(&arguments));
        let came = Came::new(&report, copy.root());
        let differences = compare::differences(self, &came);
        Ok(CaseResult {
            name: self.name.clone(),
            passed: differences.is_empty(),
            differences,
            verdict: came.verdict,
            receipt: report.receipt,
        })
    }
}

fn in_one(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{}; {hint}", problem.message),
        None => problem.message.clone(),
    }
}

/// A value of TOML as JSON; a date is the text that stands there.
fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(value) => (*value).into(),
        toml::Value::Datetime(moment) => moment.to_string().into(),
        toml::Value::Array(elements) => elements.iter().map(json).collect(),
        toml::Value::Table(table) => table.iter().map(|(key, value)| (key.clone(), json(value))).collect(),
    }
}

#[cfg(test)]
mod tests;
