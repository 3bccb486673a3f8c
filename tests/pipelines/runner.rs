//! A runner for the steps of a composite action: shells run as GitHub's runner starts them, other actions are only noted.
//!
//! It reads the log as the runner does: `::` at the beginning of a line, blanks aside, and `##[` anywhere begin a command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Finished, finish};

/// Root of the sources, which hold the action.
pub(super) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A file in YAML.
pub(super) fn read_yaml(path: &str) -> Value {
    let text = std::fs::read_to_string(source(path)).expect("it is there");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Call of another action, for which nothing runs.
#[derive(Debug)]
pub(super) struct ActionCall {
    pub(super) uses: String,
    pub(super) with: BTreeMap<String, String>,
}

/// A job with a workspace, a temporary folder, and the files by which steps tell the runner something.
pub(super) struct Runner {
    temporary: TempDir,
    workspace: PathBuf,
    inputs: BTreeMap<String, String>,
    /// Variables of the step that uses the action.
    pub(super) variables: BTreeMap<String, String>,
    step_outputs: BTreeMap<String, String>,
    pub(super) calls: Vec<ActionCall>,
    /// Output of all steps.
    pub(super) log: String,
}

impl Runner {
    pub(super) fn new(workspace: &Path) -> Self {
        let temporary = TempDir::new().expect("a temporary folder");
        for name in ["summary", "output", "env", "path"] {
            std::fs::write(temporary.path().join(name), "").expect("the folder is writable");
        }
        Self {
            temporary,
            workspace: workspace.to_owned(),
            inputs: BTreeMap::new(),
            variables: BTreeMap::new(),
            step_outputs: BTreeMap::new(),
            calls: Vec::new(),
            log: String::new(),
        }
    }

    /// `runner.temp`.
    pub(super) fn temp(&self) -> &Path {
        self.temporary.path()
    }

    /// Puts a configuration where the action has its home.
    pub(super) fn configure(&self, text: &str) {
        let home = self.temp().join("tool-home");
        std::fs::create_dir_all(&home).expect("the folder is writable");
        std::fs::write(home.join("config.toml"), text).expect("the folder is writable");
    }

    /// A file by which steps tell the runner something: `summary`, `output`, `env` or `path`.
    pub(super) fn told(&self, name: &str) -> String {
        std::fs::read_to_string(self.temp().join(name)).expect("it is text")
    }

    /// A file of the reports.
    pub(super) fn report(&self, name: &str) -> String {
        let place = self.temp().join("tool-ci").join(name);
        std::fs::read_to_string(&place).unwrap_or_else(|error| panic!("{}: {error}", place.display()))
    }

    /// Runs the steps of the action with these inputs, and gives the exit code of the first one that failed.
    pub(super) fn run_action(&mut self, given: &[(&str, &str)]) -> i32 {
        let action = read_yaml("action.yml");
        let declared = action["inputs"].as_object().expect("inputs");
        for (name, input) in declared {
            let default = input["default"].as_str().unwrap_or_default().to_owned();
            self.inputs.insert(name.clone(), default);
        }
        for (name, value) in given {
            assert!(declared.contains_key(*name), "`{name}` is no input");
            self.inputs.insert((*name).to_owned(), (*value).to_owned());
        }
        let mut failed = 0;
        for step in action["runs"]["steps"].as_array().expect("steps") {
            let condition = step["if"].as_str().unwrap_or("success()");
            if !self.holds(condition, failed == 0) {
                continue;
            }
            if let Some(uses) = step["uses"].as_str() {
                let call = self.action_call(uses, &step["with"]);
                self.calls.push(call);
                continue;
            }
            let finished = self.run_step(step);
            self.log.push_str(&finished.stdout);
            self.log.push_str(&finished.stderr);
            if failed == 0 {
                failed = finished.code;
            }
        }
        failed
    }

    fn action_call(&self, uses: &str, with: &Value) -> ActionCall {
        let inputs = with.as_object().expect("inputs").iter();
        let with = inputs.map(|(name, value)| (name.clone(), self.expanded(value.as_str().expect("a text"))));
        ActionCall {
            uses: uses.to_owned(),
            with: with.collect(),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a runner gives a step to a shell")]
    fn run_step(&mut self, step: &Value) -> Finished {
        let script = step["run"].as_str().expect("a script");
        assert!(
            !script.contains("${{"),
            "inputs must not be pasted into a script:\n{script}"
        );
        assert_eq!(step["shell"], "bash");
        let place = self.temp().join("step.sh");
        std::fs::write(&place, script).expect("the folder is writable");
        let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-e", "-o", "pipefail"])
            .arg(&place)
            .current_dir(&self.workspace)
            .env_clear()
            .env(
                "PATH",
                format!("{}:{path}", binary.parent().expect("a folder").display()),
            )
            .env("HOME", self.temp())
            .env("CI", "true")
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_EVENT_NAME", "push")
            .env("GITHUB_WORKSPACE", &self.workspace)
            .env("GITHUB_ACTION_PATH", source("."))
            .env("RUNNER_OS", "Linux")
            .env("RUNNER_TEMP", self.temp())
            .envs(&self.variables)
            .stdin(Stdio::null());
        for (variable, name) in [
            ("GITHUB_STEP_SUMMARY", "summary"),
            ("GITHUB_OUTPUT", "output"),
            ("GITHUB_ENV", "env"),
            ("GITHUB_PATH", "path"),
        ] {
            command.env(variable, self.temp().join(name));
        }
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command.env(name, self.expanded(value.as_str().expect("a text")));
        }
        let finished = finish(command.output().expect("there is bash"));
        if let Some(id) = step["id"].as_str() {
            for (name, value) in outputs_of(&self.told("output")) {
                self.step_outputs.insert(format!("steps.{id}.outputs.{name}"), value);
            }
        }
        finished
    }

    /// A text with its expressions replaced.
    fn expanded(&self, text: &str) -> String {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${{") {
            let (name, behind) = after.split_once("}}").expect("an expression ends");
            expanded.push_str(before);
            expanded.push_str(&self.value(name.trim()));
            rest = behind;
        }
        expanded + rest
    }

    fn value(&self, name: &str) -> String {
        let (context, key) = name.split_once('.').unwrap_or((name, ""));
        match context {
            "inputs" => self
                .inputs
                .get(key)
                .unwrap_or_else(|| panic!("no input `{key}`"))
                .clone(),
            "steps" => self.step_outputs.get(name).cloned().unwrap_or_default(),
            "runner" if key == "temp" => self.temp().display().to_string(),
            "github" if key == "sha" => "0123456789012345678901234567890123456789".to_owned(),
            "github" if key == "repository_id" => "42".to_owned(),
            _ => panic!("the runner does not know `{name}`"),
        }
    }

    fn holds(&self, condition: &str, succeeded: bool) -> bool {
        let parts: Vec<&str> = condition.split("&&").map(str::trim).collect();
        let is_true = |part: &&str| match *part {
            "always()" | "success()" => true,
            comparison => {
                let equal = |(left, right): (&str, &str)| self.value(left.trim()) == right.trim().trim_matches('\'');
                match comparison.split_once("!=") {
                    Some(sides) => !equal(sides),
                    None => equal(comparison.split_once("==").expect("a comparison")),
                }
            }
        };
        (succeeded || parts.contains(&"always()")) && parts.iter().all(is_true)
    }
}

/// Outputs of a step, as the runner reads them from its file.
pub(super) fn outputs_of(text: &str) -> BTreeMap<String, String> {
    let mut outputs = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (name, delimiter) = line.split_once("<<").expect("a name with a delimiter");
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
        outputs.insert(name.to_owned(), value.join("\n"));
    }
    outputs
}

/// The lines of a log that the runner takes for commands.
pub(super) fn commands_in(log: &str) -> Vec<&str> {
    let lines = log.split(['\n', '\r']).map(str::trim);
    lines
        .filter(|line| line.starts_with("::") || line.contains("##["))
        .collect()
}
