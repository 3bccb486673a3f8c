//! A guest that calls every function of the contract: `{"do": NAME}` calls one and tells all that it answers.
//!
//! Its answers are equal word by word in each language: `tests/languages/whole.rs` has them. It is written without the
//! kit.

#[cfg(target_family = "wasm")]
#[path = "../../hostile/src/outside.rs"]
mod outside;

#[cfg(target_family = "wasm")]
mod component_face {
    #![expect(unsafe_code, reason = "generated bindings")]
    #![allow(missing_docs, reason = "generated bindings")]

    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package guest:contract;
            world everything {
                include tool:skill/imports@1.0.0;
                export tool:skill/handler@1.0.0;
                export tool:skill/sharded@1.0.0;
            }
        ",
        world: "guest:contract/everything",
        generate_all,
    });

    use std::fmt::Write;

    use serde::{Deserialize, Serialize};

    use super::outside;
    use exports::tool::skill::{handler, sharded};
    use tool::skill::types::{Descriptor, Failure, Function, Outcome, Report};
    use tool::skill::{
        answer, bulk, git_commit, git_history, git_read, log, packages, proposal, repository, search, symbols, tests,
    };

    const EFFECTS: &str = "read-repository write-repository read-git commit-git run-process install \
        http:tickets.example.org http-write:tickets.example.org config secret:contract_token store";

    const PARAMETERS: &str = r#"{
        "type": "object",
        "properties": {
            "do": {"type": "string"},
            "path": {"type": "string"},
            "text": {"type": "string"},
            "digest": {"type": "string"},
            "numbers": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "cursor": {"type": "string"}
        },
        "required": ["do"],
        "additionalProperties": false
    }"#;

    #[derive(Deserialize, Serialize)]
    struct Asked {
        r#do: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        path: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        digest: String,
        #[serde(default)]
        numbers: Vec<u64>,
    }

    struct Face;

    impl handler::Guest for Face {
        fn describe() -> Descriptor {
            Descriptor {
                name: "contract_rust".to_owned(),
                version: "1.0.0".to_owned(),
                description: "Uses the whole contract.".to_owned(),
                functions: vec![Function {
                    name: "contract_rust".to_owned(),
                    description: "Uses the whole contract.".to_owned(),
                    parameters: PARAMETERS.to_owned(),
                    effects: EFFECTS.split(' ').map(str::to_owned).collect(),
                    metadata: None,
                }],
                metadata: None,
            }
        }

        fn call(_: String, arguments: String) -> Result<Outcome, Failure> {
            let Asked {
                r#do,
                path,
                text,
                digest,
                numbers,
            } = asked(&arguments)?;
            let said = match r#do.as_str() {
                "echo" => text,
                "list" => list(path)?,
                "read" => read(path)?,
                "divide" => format!("starts {}", bulk::divide(&selection(path), 4)?.len()),
                "show" => {
                    // The digest is in the arguments, so that no language needs a library for it.
                    repository::shown(&path, &text);
                    whole(&path)?
                }
                "write" => {
                    stage(&path, &text)?;
                    "written".to_owned()
                }
                "replace" => {
                    whole(&path)?;
                    proposal::replace(&path, &digest)?;
                    stage(&path, &text)?;
                    proposal::set_executable(&path, true)?;
                    "replaced".to_owned()
                }
                "rename" => {
                    whole(&path)?;
                    proposal::rename(&path, &text, &digest)?;
                    "moved".to_owned()
                }
                "delete" => {
                    return Ok(Outcome {
                        deletions: vec![path],
                        ..outcome("deleted".to_owned())
                    });
                }
                "changes" => changes()?,
                "commit" => commit(&text)?,
                "test" => {
                    let suites = tests::run(&tests::Request {
                        recipe: Some("pytest".to_owned()),
                        check: None,
                        paths: Vec::new(),
                        filter: None,
                        timeout_seconds: Some(60),
                    })?;
                    let suite = suites.into_iter().next().ok_or_else(|| failed("no suite"))?;
                    ran(&suite.outcome?.report)
                }
                "install" => ran(&packages::install(&packages::Request {
                    recipe: "pip-install".to_owned(),
                    names: vec![text],
                    dev: false,
                })?),
                "history" => history(path)?,
                "parts" => {
                    answer::text("piece ä\n");
                    answer::progress(1, Some(2), "half");
                    answer::cite(&answer::Citation { path, line: Some(2) })?;
                    answer::attach(&answer::Media {
                        media_type: "text/vnd.mermaid".to_owned(),
                        alternative: "a graph".to_owned(),
                        content: b"graph TD; a-->b".to_vec(),
                    })?;
                    "whole".to_owned()
                }
                "request" => {
                    let message = outside::Message {
                        method: if text.is_empty() { "GET" } else { "POST" },
                        url: &path,
                        headers: &["authorization: Bearer {{secret:contract_token}}".to_owned()],
                        body: text.as_bytes(),
                    };
                    outside::request(&message).map_err(failed)?
                }
                "symbols" => symbol_lines(&text, &path)?,
                "candidates" => candidate_lines(text, path)?,
                "narrowed" => narrowed_lines(text, path)?,
                "settings" => outside::settings().map_err(failed)?.join(" "),
                "kept-keys" => outside::kept_keys("").map_err(failed)?.join(" "),
                "setting" => or_nothing(outside::setting(&path).map_err(failed)?),
                "keep" => {
                    let old = outside::kept("", &path).map_err(failed)?;
                    outside::keep("", &path, text.as_bytes()).map_err(failed)?;
                    or_nothing(old)
                }
                "log" => {
                    log::write("info", &text);
                    "said".to_owned()
                }
                "page" => {
                    return Ok(Outcome {
                        truncated: true,
                        details: Some(format!("{{\"page\": {text:?}}}")),
                        cursor: Some(text),
                        ..outcome("a page".to_owned())
                    });
                }
                "fail" => {
                    let hint = Some("look elsewhere".to_owned());
                    return Err(Failure {
                        code: "not-found".to_owned(),
                        message: text,
                        hint,
                    });
                }
                "add" => numbers.iter().sum::<u64>().to_string(),
                other => return Err(failed(format!("no function `{other}`"))),
            };
            Ok(outcome(said))
        }
    }

    impl sharded::Guest for Face {
        /// Two parts of an addition, and everything else whole.
        fn split(_: String, arguments: String, _: u32) -> Result<Vec<String>, Failure> {
            let asked = asked(&arguments)?;
            if asked.r#do != "add" {
                return Ok(vec![arguments]);
            }
            let (before, after) = asked.numbers.split_at(asked.numbers.len() / 2);
            let part = |numbers: &[u64]| {
                let add = serde_json::json!({"do": "add", "numbers": numbers});
                add.to_string()
            };
            Ok(vec![part(before), part(after)])
        }

        fn merge(_: String, _: String, mut outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
            match (outcomes.len(), outcomes.pop()) {
                (1, Some(only)) => Ok(only),
                (_, last) => {
                    outcomes.extend(last);
                    let texts: Vec<String> = outcomes.into_iter().map(|outcome| outcome.text).collect();
                    Ok(outcome(texts.join(" and ")))
                }
            }
        }
    }

    fn whole(path: &str) -> Result<String, Failure> {
        std::fs::read_to_string(format!("/repo/{path}")).map_err(failed)
    }

    fn stage(path: &str, text: &str) -> Result<(), Failure> {
        let path = std::path::Path::new("/stage").join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text)).map_err(failed)
    }

    fn history(path: String) -> Result<String, Failure> {
        let log = git_history::log(&git_history::LogQuery {
            revision: None,
            paths: Vec::new(),
            count: 10,
            after: None,
        })?;
        let shown = git_history::show(&git_history::ShowQuery {
            revision: Some(log.commits[0].id.clone()),
            paths: Vec::new(),
            context_lines: 3,
        })?;
        let blame = git_history::blame(&git_history::BlameQuery {
            path,
            revision: None,
            first_line: 1,
            line_count: 100,
        })?;
        let messages = log.commits.iter().map(|commit| commit.message.trim().to_owned());
        let changes = shown
            .changes
            .iter()
            .map(|change| format!("{} {}", change.status, change.path));
        let hunks = blame.hunks.iter().map(|hunk| {
            let committed = yes(hunk.commit.is_some());
            format!("{}+{} {committed}", hunk.first_line, hunk.line_count)
        });
        let parts: Vec<String> = messages.chain(changes).chain(hunks).collect();
        Ok(parts.join(", "))
    }

    fn asked(arguments: &str) -> Result<Asked, Failure> {
        serde_json::from_str(arguments).map_err(failed)
    }

    fn outcome(text: String) -> Outcome {
        Outcome {
            text,
            truncated: false,
            cursor: None,
            deletions: Vec::new(),
            details: None,
        }
    }

    fn failed(error: impl std::fmt::Display) -> Failure {
        Failure {
            code: "failed".to_owned(),
            message: error.to_string(),
            hint: None,
        }
    }

    fn yes(flag: bool) -> &'static str {
        if flag { "yes" } else { "no" }
    }

    fn list(under: String) -> Result<String, Failure> {
        let query = repository::Query {
            under,
            recursive: true,
            globs: Vec::new(),
            after: None,
        };
        let page = repository::list(&query)?;
        let mut said = String::new();
        for entry in &page.entries {
            let _ = writeln!(said, "{} {} {}", entry.kind, entry.path, entry.size);
        }
        let _ = write!(said, "left out {}, more {}", page.left_out, yes(page.next.is_some()));
        Ok(said)
    }

    fn selection(under: String) -> bulk::Selection {
        bulk::Selection {
            under,
            globs: Vec::new(),
            start: None,
            end: None,
            file_bytes_max: 1000,
            text_only: true,
        }
    }

    fn read(under: String) -> Result<String, Failure> {
        let reader = bulk::open(&selection(under))?;
        let mut lines = Vec::new();
        loop {
            let batch = reader.next();
            if batch.files.is_empty() {
                return Ok(lines.join("\n"));
            }
            let (mut paths, mut contents) = (batch.paths.as_str(), batch.contents.as_slice());
            for file in batch.files {
                let (path, other_paths) = paths.split_at(file.path_bytes as usize);
                let (content, other_contents) = contents.split_at(file.content_bytes as usize);
                (paths, contents) = (other_paths, other_contents);
                let content = file
                    .left_out
                    .unwrap_or_else(|| String::from_utf8_lossy(content).into_owned());
                lines.push(format!("{path}: {content}"));
            }
        }
    }

    fn symbol_lines(name: &str, under: &str) -> Result<String, Failure> {
        let query = symbols::Query {
            name: name.to_owned(),
            under: under.to_owned(),
            after: None,
        };
        let (definitions, references) = (symbols::definitions(&query)?, symbols::references(&query)?);
        let mut lines = Vec::new();
        for found in &definitions.definitions {
            let (path, first, last) = (&found.path, found.first_line, found.last_line);
            let comment = or_nothing(found.comment_line.map(|line| line.to_string()));
            let (container, line, signature) = (&found.container, found.line, &found.signature);
            lines.push(format!(
                "{} {container}.{} {path}:{line} {first}-{last} after {comment}: {signature}",
                found.kind, found.name
            ));
            let outline = symbols::outline(path)?.into_iter().map(|one| one.name);
            lines.push(format!("outline {}", outline.collect::<Vec<_>>().join(" ")));
            let around = symbols::enclosing(path, last)?.map(|one| one.name);
            lines.push(format!("enclosing {}", or_nothing(around)));
            let uses = symbols::uses(path, first, last)?.into_iter().map(|one| one.name);
            lines.push(format!("uses {}", uses.collect::<Vec<_>>().join(" ")));
        }
        for found in references.references {
            let (kind, name, path, line) = (found.kind, found.name, found.path, found.line);
            lines.push(format!("{kind} {name} {path}:{line} in {}", found.container));
        }
        let more = definitions.next.or(references.next).is_some();
        lines.push(format!("more {}", yes(more)));
        Ok(lines.join("\n"))
    }

    /// The files that can match, each with the text files that were left out before it, and those after the last one.
    fn narrowed_lines(text: String, under: String) -> Result<String, Failure> {
        let pattern = search::Pattern {
            kind: "word".to_owned(),
            text,
            ignore_case: false,
        };
        let reader = search::open(&search::NarrowedSelection {
            files: selection(under),
            patterns: vec![pattern],
            apart: Vec::new(),
        })?;
        let (mut lines, mut left_out) = (Vec::new(), 0);
        loop {
            let batch = reader.next();
            let mut paths = batch.files.paths.as_str();
            for (file, counts) in batch.files.files.iter().zip(&batch.left_out) {
                let (path, others) = paths.split_at(file.path_bytes as usize);
                paths = others;
                lines.push(format!("{path} after {}", left_out + counts.text));
                left_out = 0;
            }
            left_out += batch.left_out.last().map_or(0, |counts| counts.text);
            if batch.files.files.is_empty() {
                return Ok(format!("{}, then {left_out}", lines.join(", ")));
            }
        }
    }

    fn candidate_lines(pattern: String, under: String) -> Result<String, Failure> {
        let page = search::candidates(&search::Query {
            kind: "word".to_owned(),
            pattern,
            ignore_case: false,
            under,
            globs: Vec::new(),
            after: None,
        })?;
        Ok(format!(
            "{}, narrowed {}, more {}",
            page.paths.join(" "),
            yes(page.narrowed),
            yes(page.next.is_some())
        ))
    }

    fn changes() -> Result<String, Failure> {
        let diff = git_read::changes(&git_read::DiffQuery {
            paths: Vec::new(),
            staged: true,
            unstaged: true,
            untracked: true,
            context_lines: 3,
        })?;
        let mut lines = vec![format!("on {}, more {}", or_nothing(diff.branch), yes(diff.truncated))];
        for change in diff.changes {
            let counts = format!("+{} -{}", change.added_lines, change.removed_lines);
            let (area, status, path, from) = (change.area, change.status, change.path, or_nothing(change.old_path));
            lines.push(format!(
                "{area} {status} {path} from {from} {counts} {}",
                yes(change.binary)
            ));
            lines.push(change.patch);
        }
        Ok(lines.join("\n"))
    }

    fn or_nothing(text: Option<String>) -> String {
        text.unwrap_or_else(|| "nothing".to_owned())
    }

    fn commit(message: &str) -> Result<String, Failure> {
        let made = git_commit::create(message, &[], true)?;
        let (id, branch, files) = (made.id.len(), or_nothing(made.branch), made.files.join(" "));
        Ok(format!("{id} on {branch} by {}: {files}", made.author))
    }

    fn ran(report: &Report) -> String {
        let exit = or_nothing(report.exit_code.map(|code| code.to_string()));
        let (cut, late) = (yes(report.output_cut), yes(report.timed_out));
        let (sandbox, took) = (yes(!report.sandbox.is_empty()), yes(report.duration_ms > 0));
        let (command, passed) = (yes(!report.command.is_empty()), yes(report.output.contains("1 passed")));
        format!("exit {exit} cut {cut} late {late} in {sandbox} took {took} ran {command}, passed {passed}")
    }

    export!(Face);
}
