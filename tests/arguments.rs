//! Arguments that are malformed and plainly meant, on the real binary with a scripted model: each is accepted, with what
//! was changed in the receipt, or refused with the sentence that helps.

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedCall};

use crate::operations::{committed, newest};
use crate::providers::scripted;
use crate::support::{folder, holds};
use crate::terminal::on_terminal;

/// Calls of one message of the scripted model.
const CALLS_A_ROUND: usize = 12;

/// What becomes of a call.
enum Fate {
    /// It works, and the receipt has these sentences.
    Accepted(&'static [&'static str]),
    /// It is refused, and the model reads this.
    Refused(&'static str),
}

use Fate::{Accepted, Refused};

/// Skill, arguments and fate. `ROOT` stands for the absolute path of the repository.
const TABLE: &[(&str, &str, Fate)] = &[
    // Numbers and booleans as texts.
    (
        "read_file",
        r#"{"path":"a.py","offset":"1"}"#,
        Accepted(&["`/offset`: read as the number 1"]),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":" 2 "}"#,
        Accepted(&["`/offset`: read as the number 2"]),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":"1.0"}"#,
        Accepted(&["`/offset`: read as the number 1"]),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":1.0}"#,
        Accepted(&["`/offset`: read as the number 1"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","context":"2"}"#,
        Accepted(&["`/context`: read as the number 2"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","literal":"true"}"#,
        Accepted(&["`/literal`: read as true"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","literal":"False"}"#,
        Accepted(&["`/literal`: read as false"]),
    ),
    (
        "list_files",
        r#"{"recursive":"true"}"#,
        Accepted(&["`/recursive`: read as true"]),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":"first"}"#,
        Refused("at `/offset`: expected a whole number, got the string \"first\""),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":"1.5"}"#,
        Refused("at `/offset`: expected a whole number, got the string \"1.5\""),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":"0"}"#,
        Refused("at `/offset`: expected at least 1, got the number 0"),
    ),
    (
        "read_file",
        r#"{"path":"a.py","limit":"5000"}"#,
        Refused("at `/limit`: expected at most 2000, got the number 5000"),
    ),
    (
        "read_file",
        r#"{"path":"a.py","offset":true}"#,
        Refused("at `/offset`: expected a whole number, got true"),
    ),
    (
        "search_code",
        r#"{"pattern":"x","literal":"yes"}"#,
        Refused("at `/literal`: expected true or false, got the string \"yes\""),
    ),
    (
        "search_code",
        r#"{"pattern":10}"#,
        Refused("at `/pattern`: expected a string, got the number 10"),
    ),
    (
        "search_code",
        r#"{"pattern":"x","case":"Smart"}"#,
        Refused("(did you mean `smart`?)"),
    ),
    // Null for a field that is left out.
    (
        "read_file",
        r#"{"path":"a.py","limit":null}"#,
        Accepted(&["`/limit`: null, taken as absent"]),
    ),
    (
        "read_file",
        r#"{"path":"a.py","cursor":null}"#,
        Accepted(&["`/cursor`: null, taken as absent"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","path":null}"#,
        Accepted(&["`/path`: null, taken as absent"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","globs":null}"#,
        Accepted(&["`/globs`: null, taken as absent"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","case":null,"limit":"3"}"#,
        Accepted(&["`/case`: null, taken as absent", "`/limit`: read as the number 3"]),
    ),
    (
        "read_file",
        r#"{"path":null}"#,
        Refused("at `/path`: expected a string, got null"),
    ),
    (
        "read_file",
        r#"{"path":"a.py","ofset":null}"#,
        Refused("expected no field `ofset` (did you mean `offset`?)"),
    ),
    // One value for a list, and a list in a text.
    (
        "search_code",
        r#"{"pattern":"x","globs":"*.py"}"#,
        Accepted(&["`/globs`: read as a list of one"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","globs":"[\"*.py\"]"}"#,
        Accepted(&["`/globs`: the JSON in a text, read as what it stands for"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","globs":5}"#,
        Refused("at `/globs`: expected an array, got the number 5"),
    ),
    (
        "search_code",
        r#"{"pattern":"x","globs":""}"#,
        Refused("at `/globs/0`: expected at least 1 characters"),
    ),
    (
        "read_file",
        r#"{"path":["a.py"]}"#,
        Refused("at `/path`: expected a string, got an array of 1"),
    ),
    // Paths.
    (
        "read_file",
        r#"{"path":"ROOT/a.py"}"#,
        Accepted(&["`/path`: read as the path `a.py`"]),
    ),
    (
        "read_file",
        r#"{"path":"./sub/../a.py"}"#,
        Accepted(&["`/path`: read as the path `a.py`"]),
    ),
    (
        "read_file",
        r#"{"path":"ROOT/sub/../a.py"}"#,
        Accepted(&["`/path`: read as the path `a.py`"]),
    ),
    (
        "read_file",
        r#"{"path":"sub/.././sub//b.py"}"#,
        Accepted(&["`/path`: read as the path `sub/b.py`"]),
    ),
    (
        "search_code",
        r#"{"pattern":"x","path":"ROOT"}"#,
        Accepted(&["`/path`: read as the path `.`"]),
    ),
    (
        "list_files",
        r#"{"path":"ROOT/sub/"}"#,
        Accepted(&["`/path`: read as the path `sub/`"]),
    ),
    (
        "git_diff",
        r#"{"paths":"ROOT/a.py"}"#,
        Accepted(&["`/paths`: read as a list of one", "`/paths/0`: read as the path `a.py`"]),
    ),
    (
        "read_file",
        r#"{"path":"../a.py"}"#,
        Refused("`../a.py` leaves the repository"),
    ),
    (
        "read_file",
        r#"{"path":"sub/../../a.py"}"#,
        Refused("`sub/../../a.py` leaves the repository"),
    ),
    (
        "read_file",
        r#"{"path":"ROOT-other/a.py"}"#,
        Refused("is an absolute path"),
    ),
    (
        "read_file",
        r#"{"path":"/etc/passwd"}"#,
        Refused("`/etc/passwd` is an absolute path"),
    ),
    ("search_code", r#"{"pattern":"sub/../a"}"#, Accepted(&[])),
    // Writes: the guard decides about the resolved path, and no content is touched.
    (
        "write_file",
        r#"{"path":"ROOT/sub/../new.py","content":"null","edits":null}"#,
        Accepted(&["`/edits`: null, taken as absent", "`/path`: read as the path `new.py`"]),
    ),
    (
        "write_file",
        r#"{"path":"a.py","edits":{"old":"limit = 10","new":"limit = 11"},"content":null}"#,
        Accepted(&["`/content`: null, taken as absent", "`/edits`: read as a list of one"]),
    ),
    (
        "write_file",
        r#"{"path":"a.py","edits":"[{\"old\":\"size = 3\",\"new\":\"size = \\\"4\\\"\"}]"}"#,
        Accepted(&["`/edits`: the JSON in a text, read as what it stands for"]),
    ),
    ("write_file", r#"{"path":"number.txt","content":"5"}"#, Accepted(&[])),
    (
        "write_file",
        r#"{"path":"path.txt","content":"ROOT/sub/../a.py"}"#,
        Accepted(&[]),
    ),
    (
        "write_file",
        r#"{"path":"wrong.txt","content":5}"#,
        Refused("at `/content`: expected a string, got the number 5"),
    ),
    (
        "write_file",
        r#"{"path":"wrong.txt","content":null}"#,
        Refused("exactly one of `content` and `edits`"),
    ),
    (
        "write_file",
        r#"{"path":"ROOT/../outside.py","content":""}"#,
        Refused("is an absolute path"),
    ),
    (
        "write_file",
        r#"{"path":"sub/../.git/hooks/pre-commit","content":""}"#,
        Refused(".git/hooks/pre-commit"),
    ),
    (
        "write_file",
        r#"{"path":"ROOT/.git/config","content":""}"#,
        Refused(".git/config"),
    ),
];

#[test]
fn arguments_that_are_plainly_meant_are_accepted_and_all_others_explained() {
    let repository = committed(&[("a.py", "limit = 10\nsize = 3\n"), ("sub/b.py", "x = 1\n")]);
    let root = repository.path().canonicalize().expect("it is there");
    let root = root.to_str().expect("it is UTF-8");
    let calls = TABLE.iter().map(|(skill, arguments, _)| {
        let arguments: Value = serde_json::from_str(&arguments.replace("ROOT", root)).expect("JSON");
        ScriptedCall::new(skill, arguments)
    });
    let calls: Vec<ScriptedCall> = calls.collect();
    let rounds = calls.chunks(CALLS_A_ROUND).map(|round| Round::calls(round.to_vec()));
    let (_server, home) = scripted(rounds.chain([Round::text("Done.")]));
    home.run(repository.path(), &["refactor", "tidy up a.py"]).expect(1);
    let journal = home.path().join("sessions").join(newest(&home)).join("journal.jsonl");
    let journal = std::fs::read_to_string(journal).expect("it is written");
    let lines = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let made: Vec<Value> = lines
        .map(|mut line| line["entry"].take())
        .filter(|entry| entry["kind"] == "tool")
        .collect();
    assert!(made.len() >= TABLE.len(), "{}", made.len());
    let mut wrong = Vec::new();
    for (skill, given, fate) in TABLE {
        let given_arguments: Value = serde_json::from_str(&given.replace("ROOT", root)).expect("JSON");
        let is_it = |line: &&Value| {
            let arguments = line["arguments"].as_str().expect("a text");
            line["name"] == *skill && serde_json::from_str::<Value>(arguments).ok().as_ref() == Some(&given_arguments)
        };
        let line = made.iter().find(is_it).expect("it was called");
        let (verdict, result) = (&line["verdict"], line["result"].as_str().expect("a text"));
        let is_so = match fate {
            Accepted(changes) => {
                let noted = line["receipt"]["changes"].as_array().cloned().unwrap_or_default();
                verdict == "ok" && line["receipt"]["arguments"] == given_arguments && json!(changes) == json!(noted)
            }
            Refused(sentence) => verdict != "ok" && result.contains(sentence),
        };
        if !is_so {
            wrong.push(format!(
                "{skill} {given}\n  {verdict}: {result}\n  {}",
                line["receipt"]["changes"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    let text = |path: &str| std::fs::read_to_string(repository.path().join(path)).unwrap_or_default();
    assert_eq!(text("a.py"), "limit = 11\nsize = \"4\"\n");
    assert_eq!(text("new.py"), "null");
    assert_eq!(text("number.txt"), "5");
    assert_eq!(text("path.txt"), format!("{root}/sub/../a.py"));
    assert!(!repository.path().join(".git/hooks/pre-commit").exists());
}

#[test]
fn a_question_shows_the_arguments_as_they_were_read() {
    let repository = folder(&[("a.py", "limit = 10\n"), ("sub/b.py", "x = 1\n")]);
    let root = repository.path().canonicalize().expect("it is there");
    let path = format!("{}/sub/../new.py", root.display());
    let write = ScriptedCall::new("write_file", json!({"path": path, "content": "x = 1\n", "edits": null}));
    let (_server, home) = scripted([Round::calls([write]), Round::text("Done.")]);
    let flags = ["refactor", "add it", "--ask-before-write", "--deny", "run-process"];
    let shown = on_terminal(
        &home,
        repository.path(),
        200,
        &flags,
        &[("REPLY", "n"), ("NO_COLOR", "1")],
    );
    holds(&shown.stdout, &["+++ b/new.py", "+x = 1"]);
    assert!(!root.join("new.py").exists());
}
