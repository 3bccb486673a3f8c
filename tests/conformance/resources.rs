//! Resources and their fields: each field of each answer, over both path forms where both serve it.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::recorded::{self, Session, explain, explain_under_api, failed, refactor};

/// The explain of either path form.
fn both() -> [&'static Session; 2] {
    [explain(), explain_under_api()]
}

/// ISO 8601 in UTC, and of this session.
#[track_caller]
fn is_time(value: &Value, session: &Session) -> DateTime<Utc> {
    let text = value.as_str().expect("a timestamp is a string");
    let time: DateTime<Utc> = text.parse().expect("a timestamp is ISO 8601");
    assert!(text.ends_with('Z'), "{text} is in UTC");
    let age = time - session.began;
    assert!((-1..60).contains(&age.num_seconds()), "{text} is of the session");
    time
}

/// A path as answers name it: relative, without `.` and `..`, and there.
#[track_caller]
fn is_path(value: &Value) {
    let path = value.as_str().expect("a path is a string");
    let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    assert!(plain, "`{path}` is relative to the root");
}

#[test]
fn resource_timestamps() {
    let session = explain();
    for value in [
        &session.task()["timestamp"],
        &session.entry()["started"],
        &session.entry()["completed"],
        &session.status.json()["started"],
        &session.history_file["sessions"][0]["started"],
        &session.history_file["sessions"][0]["completed"],
    ] {
        is_time(value, session);
    }
    let times = regex::Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(\S*)").expect("a constant");
    for time in times.captures_iter(&session.report) {
        assert_eq!(&time[1], "Z", "{}", &time[0]);
    }
}

#[test]
fn resource_paths() {
    let session = refactor();
    let result = session.result.json();
    for path in result["files_modified"].as_array().expect("a list") {
        is_path(path);
    }
    is_path(&result["report_path"]);
    let selection = &session.of_type("selection")[0]["files"];
    for file in selection.as_array().expect("a list") {
        is_path(&file["path"]);
    }
}

#[test]
fn scan_result_files() {
    for session in both() {
        assert_eq!((session.scan.status, &session.scan.json()["files"]), (200, &json!(8)));
    }
}

#[test]
fn scan_result_directories() {
    for session in both() {
        assert_eq!(session.scan.json()["directories"], 1);
    }
}

#[test]
fn scan_result_languages() {
    for session in both() {
        let languages = session.scan.json()["languages"].clone();
        let languages = languages.as_array().expect("an array");
        assert!(languages.iter().all(Value::is_string), "{languages:?}");
        assert!(languages.contains(&"Python".into()), "{languages:?}");
    }
}

#[test]
fn session_start_session_id() {
    let ids = both().map(|session| session.start.json()["session_id"].clone());
    assert!(
        ids.iter().all(|id| id.as_str().is_some_and(|id| !id.is_empty())),
        "{ids:?}"
    );
    assert_ne!(ids[0], ids[1], "it is the session's own");
    assert_eq!(explain().result.json()["session_id"], ids[0]);
}

#[test]
fn session_start_status() {
    for session in both() {
        assert_eq!(session.start.json()["status"], "running");
    }
}

#[test]
fn provider_entry_name() {
    for session in both() {
        let providers = session.models.expect_list("providers");
        let names: Vec<&Value> = providers.iter().map(|provider| &provider["name"]).collect();
        assert_eq!(names, ["hosted", "local", "router"]);
    }
}

#[test]
fn provider_entry_enabled() {
    for session in both() {
        let providers = session.models.expect_list("providers");
        let enabled: Vec<&Value> = providers.iter().map(|provider| &provider["enabled"]).collect();
        assert_eq!(enabled, [false, true, false]);
    }
}

#[test]
fn provider_entry_models() {
    for session in both() {
        for provider in session.models.expect_list("providers") {
            let models = provider["models"].as_array().expect("an array").clone();
            assert!(models.iter().all(Value::is_string), "{provider}");
            assert_eq!(
                models.contains(&"scripted".into()),
                provider["name"] == "local",
                "{provider}"
            );
        }
    }
}

#[test]
fn task_session_id() {
    for session in both() {
        assert_eq!(session.task()["session_id"], session.id.as_str());
    }
}

#[test]
fn task_operation() {
    assert_eq!(explain().task()["operation"], "explain");
    assert_eq!(refactor().task()["operation"], "refactor");
    let names = tool_core::api::Operation::ALL.map(|operation| json!(operation));
    assert_eq!(names, ["explain", "architect", "refactor", "test-gen"]);
}

#[test]
fn task_target() {
    assert_eq!(explain().task()["target"], ".");
    assert_eq!(refactor().task()["target"], "shop");
}

#[test]
fn task_timestamp() {
    for session in both() {
        is_time(&session.task()["timestamp"], session);
    }
}

#[test]
fn task_status() {
    assert_eq!(explain().task()["status"], "complete");
    assert_eq!(failed().task()["status"], "failed");
}

#[test]
fn history_id() {
    for session in both() {
        assert_eq!(session.entry()["id"], session.id.as_str());
    }
}

#[test]
fn history_operation() {
    assert_eq!(explain().entry()["operation"], "explain");
    assert_eq!(refactor().entry()["operation"], "refactor");
}

#[test]
fn history_started() {
    for session in both() {
        let started = is_time(&session.entry()["started"], session);
        assert_eq!(started, is_time(&session.task()["timestamp"], session));
    }
}

#[test]
fn history_completed() {
    for session in both() {
        let entry = session.entry();
        assert!(
            is_time(&entry["completed"], session) >= is_time(&entry["started"], session),
            "{entry}"
        );
    }
}

#[test]
fn history_files_modified() {
    assert_eq!(explain().entry()["files_modified"], 0);
    assert_eq!(refactor().entry()["files_modified"], 2);
}

#[test]
fn history_provider() {
    assert_eq!(
        explain().entry()["provider"],
        "scripted",
        "the model, not the provider's name"
    );
}

#[test]
fn result_session_id() {
    for session in both() {
        assert_eq!(session.result.status, 200);
        assert_eq!(session.result.json()["session_id"], session.id.as_str());
    }
}

#[test]
fn result_operation() {
    assert_eq!(explain().result.json()["operation"], "explain");
    assert_eq!(refactor().result.json()["operation"], "refactor");
}

#[test]
fn result_status() {
    assert_eq!(explain().result.json()["status"], "complete");
    assert_eq!(failed().result.json()["status"], "failed");
}

#[test]
fn result_output() {
    for session in both() {
        let tokens = session.of_type("token");
        let streamed: String = tokens.iter().filter_map(|token| token["content"].as_str()).collect();
        let result = session.result.json();
        assert_eq!(result["output"], streamed.as_str(), "all that was streamed");
        let output = result["output"].as_str().expect("a string");
        assert!(
            output.contains("Let me look.") && output.contains("It counts crates (app.py:1)."),
            "{output}"
        );
    }
}

#[test]
fn result_files_modified() {
    assert_eq!(explain().result.json()["files_modified"], json!([]));
    let changed = json!(["shop/prices.py", "shop/taxes.py"]);
    assert_eq!(refactor().result.json()["files_modified"], changed);
    assert!(refactor().prices.starts_with("RATE = 3\n"));
}

#[test]
fn result_report_path() {
    let session = explain();
    let path = session.result.json()["report_path"].clone();
    let name = path.as_str().and_then(|path| path.strip_prefix("session-reports/"));
    let name = name.expect("it lies in session-reports").to_owned();
    assert!(session.names.contains(&name), "{name} is one of {:?}", session.names);
    assert!(name.ends_with(&format!("_{}.md", session.id)), "{name}");
}

#[test]
fn result_note_files_modified() {
    let session: &Session = recorded::refactor();
    let count = session.entry()["files_modified"].as_u64();
    let paths = session.result.json()["files_modified"].as_array().map(Vec::len);
    assert_eq!((count, paths), (Some(2), Some(2)));
}

trait ListOf {
    fn expect_list(&self, key: &str) -> Vec<Value>;
}

impl ListOf for super::http::Answer {
    #[track_caller]
    fn expect_list(&self, key: &str) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()[key].as_array().expect("an array").clone()
    }
}
