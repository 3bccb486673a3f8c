use proptest::prelude::*;

use super::*;
use crate::profile::Profile;
use crate::symbols::{Packages, Resolver};
use crate::weights::WEIGHTS;
use crate::words::{is_common, is_function_word, stem_word};

fn stemmed(word: &str) -> String {
    String::from_utf8_lossy(stem_word(word.as_bytes())).into_owned()
}

fn parts(identifier: &str) -> Vec<String> {
    let mut parts = Vec::new();
    split_identifier(identifier.as_bytes(), |word, whole| {
        parts.push(format!(
            "{}{}",
            String::from_utf8_lossy(word),
            if whole { "!" } else { "" }
        ));
    });
    parts
}

/// Ranks files for a task: paths, best first.
fn ranking(task: &str, files: &[(&str, &str)]) -> Vec<(String, Ranked)> {
    let paths: Vec<&str> = files.iter().map(|file| file.0).collect();
    let roles: Vec<Role> = paths.iter().map(|path| file_role::detect_role(path)).collect();
    let resolver = Resolver::new(&paths, Packages::default());
    let query = Query::new(task, &WEIGHTS);
    let matches: Vec<Option<FileMatch>> = files
        .iter()
        .map(|(path, text)| {
            let profile = Profile::from_text(path, text);
            let mut imports = Vec::new();
            profile.each_import(|import| imports.extend(resolver.resolve(path, &import)));
            imports.sort_unstable();
            imports.dedup();
            imports.retain(|at| paths[*at as usize] != *path);
            Some(FileMatch::match_profile(&query, &profile, imports.into()))
        })
        .collect();
    let names = PathNames::new(&paths);
    let read = |at: u32| Some(files[at as usize].1.to_owned());
    let candidates = Candidates {
        paths: &paths,
        roles: &roles,
        matches: &matches,
        unread: &UnreadCounts::default(),
        names: &names,
        areas: &names.areas(&query, &paths),
        history: None,
        read: Some(&read),
    };
    let ranked = rank_candidates(&query, &candidates, &WEIGHTS, usize::MAX);
    ranked
        .into_iter()
        .map(|one| (paths[one.index as usize].to_owned(), one))
        .collect()
}

fn first(task: &str, files: &[(&str, &str)]) -> String {
    ranking(task, files)
        .first()
        .map_or_else(String::new, |(path, _)| path.clone())
}

#[test]
fn a_file_that_defines_more_words_of_the_task_comes_first() {
    let ranked = ranking(
        "expire cached tokens early",
        &[
            (
                "a.py",
                "def expire_all(now):\n    return now\n\ndef other(now): token\n",
            ),
            (
                "b.py",
                "def expire_all(now):\n    return now\n\ndef token_of(now): pass\n",
            ),
        ],
    );
    let (path, best) = &ranked[0];
    assert_eq!(path, "b.py");
    let reasons: Vec<&str> = best.evidence.iter().map(|(reason, _)| &**reason).collect();
    assert!(reasons.contains(&"defines names with words of the task"), "{reasons:?}");
}

#[test]
fn words_tables_are_sorted_for_the_search() {
    for word in ["a", "the", "your", "x"] {
        assert!(is_function_word(word.as_bytes()), "{word}");
    }
    for word in ["add", "fix", "refactor", "tests", "wrong"] {
        assert!(is_common(word.as_bytes()), "{word}");
    }
    assert!(!is_common(b"queue") && !is_function_word(b"queue"));
}

#[test]
fn forms_of_a_word_share_a_stem() {
    for forms in [
        &["cache", "cached", "caches", "caching"][..],
        &["deprecate", "deprecated", "deprecation", "deprecations"],
        &["query", "queries"],
        &["strip", "stripped", "stripping", "strips"],
        &["parse", "parser", "parsing", "parsers"],
        &["class", "classes"],
    ] {
        let stems: std::collections::BTreeSet<String> = forms.iter().map(|word| stemmed(word)).collect();
        assert_eq!(stems.len(), 1, "{forms:?}: {stems:?}");
    }
    assert_eq!(
        (stemmed("api"), stemmed("css"), stemmed("http2")),
        ("api".into(), "css".into(), "http2".into())
    );
}

#[test]
fn identifiers_split_at_case_and_underscores() {
    assert_eq!(parts("process_request"), ["process", "request", "processrequest!"]);
    assert_eq!(
        parts("HTTPServerError2x"),
        ["http", "server", "error2x", "httpservererror2x!"]
    );
    assert_eq!(parts("__init__"), ["init"]);
    assert_eq!(parts("x"), ["x"]);
    assert_eq!(parts("___"), Vec::<String>::new());
}

#[test]
fn a_task_is_read_for_code_paths_and_titles() {
    let query = Query::new(
        "fix: `arrow-body-style` crash in src/rules/arrow.js (#19379)\n\nSee https://x.org/a and 0ec7f713d679.\nSigned-off-by: A <a@b.c>",
        &WEIGHTS,
    );
    assert_eq!(query.paths, ["src/rules/arrow.js"]);
    assert!(query.names.contains_key("arrowbodystyle"));
    let words: Vec<&str> = query.terms.iter().map(|term| term.word.as_str()).collect();
    assert_eq!(
        words,
        ["fix", "arrow", "body", "style", "crash", "src", "rules", "js", "see"]
    );
    let weight = |word: &str| {
        query
            .terms
            .iter()
            .find(|term| term.word == word)
            .map(|term| term.weight)
    };
    assert!(weight("style") > weight("crash") && weight("crash") > weight("fix"));
    assert!(Query::new("of the \n #12, GH-34 (v1.2.3, 2026) 1a2b3c4", &WEIGHTS).is_empty());
    let query = Query::new("sha1 utf8 lz4 h2 ext4", &WEIGHTS);
    for word in ["sha1", "utf8", "lz4", "h2", "ext4"] {
        assert!(query.term(word.as_bytes()).is_some(), "{word}");
    }
}

#[test]
fn a_definition_that_the_task_names_outweighs_mentions() {
    let mentions = "process_request()\n".repeat(30);
    let files = [
        (
            "a/defines.py",
            "class Robots:\n    def process_request(self):\n        pass\n",
        ),
        ("a/uses.py", mentions.as_str()),
        ("a/other.py", "x = 1\n"),
    ];
    assert_eq!(first("Make process_request of Robots async", &files), "a/defines.py");
    assert_eq!(first("Make processRequest of Robots async", &files), "a/defines.py");
}

#[test]
fn a_file_or_path_that_the_task_names_comes_first() {
    let files = [
        ("lib/rules/no-eval.js", "x"),
        ("lib/rules/no-implied-eval.js", "eval eval eval no"),
        ("lib/eval.js", "eval no"),
        ("z.js", "y"),
    ];
    assert_eq!(first("fix: report in `no-eval`", &files), "lib/rules/no-eval.js");
    assert_eq!(
        first("Clean up lib/rules/no-implied-eval.js", &files),
        "lib/rules/no-implied-eval.js"
    );
}

#[test]
fn rare_words_weigh_more_than_frequent_ones() {
    let common = "request response request response\n";
    let files = [
        ("a.py", "request gzip\n"),
        ("b.py", common),
        ("c.py", common),
        ("d.py", common),
    ];
    assert_eq!(first("request with gzip", &files), "a.py");
}

#[test]
fn tests_come_after_sources_unless_the_task_is_about_them() {
    let files = [
        ("src/cart.py", "def total(): discount\n"),
        ("tests/test_cart.py", "def test_total(): discount discount\n"),
        ("z.py", "q"),
    ];
    assert_eq!(first("Round the discount of total, add tests", &files), "src/cart.py");
    assert_eq!(
        first("Split the tests of the discount total", &files),
        "tests/test_cart.py"
    );
}

#[test]
fn styles_come_after_code_unless_the_task_says_their_language() {
    let files = [
        ("web/sidebar.css", ".sidebar { width: 1px }\n.sidebar a { }\n"),
        ("web/sidebar.js", "export function sidebar() { return 1 }\n"),
        ("z.js", "q"),
    ];
    assert_eq!(first("Show the width of the sidebar", &files), "web/sidebar.js");
    assert_eq!(first("Set the width of the sidebar in CSS", &files), "web/sidebar.css");
}

#[test]
fn what_relevant_files_import_gets_a_share() {
    let files = [
        ("a.py", "from helper import x\n# throttle throttle\n"),
        ("b.py", "from helper import x\n# throttle throttle\n"),
        ("helper.py", "x = 1\n"),
        ("unrelated.py", "x = 1\n"),
    ];
    let ranked = ranking("throttle", &files);
    let shown: Vec<&str> = ranked.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(shown, ["a.py", "b.py", "helper.py"]);
    assert_eq!(ranked[2].1.evidence[0].0, "imported by or importing relevant files");
}

#[test]
fn windows_point_at_the_lines_of_the_words() {
    let mut lines = vec!["pass"; 1000];
    lines[640] = "def retry_backoff(): backoff";
    lines[100] = "backoff";
    let text = lines.join("\n");
    let ranked = ranking("Change the backoff of retries", &[("a.py", &text), ("b.py", "x\n")]);
    let (from, to, score) = ranked[0].1.windows[0];
    assert!((from..=to).contains(&641) && to - from < 60, "{from}-{to}");
    let (other_from, other_to, other) = ranked[0].1.windows[1];
    assert!((other_from..=other_to).contains(&101) && other < score);
    assert!(
        ranked[0]
            .1
            .evidence
            .iter()
            .any(|(reason, _)| reason.contains(&format!("lines {from}-{to}"))),
        "{:?}",
        ranked[0].1.evidence
    );
}

#[test]
fn a_ranking_of_nothing_is_empty() {
    assert!(ranking("", &[("a.py", "x")]).is_empty());
    assert!(ranking("anything", &[]).is_empty());
    assert!(ranking("anything", &[("a.py", "")]).is_empty());
}

proptest! {
    #[test]
    fn any_text_is_ranked_without_panic_and_with_windows_inside(task in "\\PC{0,120}", text in "(\\PC|\n|word |word_one |WordTwo ){0,300}") {
        let task = format!("{task} word");
        let ranked = ranking(&task, &[("a/word.py", &text), ("b.py", "word\n")]);
        let lines = text.lines().count().max(1) as u32;
        for (path, one) in &ranked {
            prop_assert!(one.score.is_finite() && one.score > 0.0);
            let most = if path == "b.py" { 1 } else { lines };
            prop_assert!(one.windows.iter().all(|(from, to, _)| *from >= 1 && from <= to && *from <= most));
        }
    }

    #[test]
    fn stems_are_prefixes_and_parts_make_the_whole(word in "[a-z]{0,30}", identifier in "[A-Za-z0-9_$]{0,80}") {
        let stem = stemmed(&word);
        prop_assert!(word.starts_with(&stem));
        prop_assert!(word.len() < 3 || stem.len() >= 2);
        let parts = parts(&identifier);
        let (whole, parts): (Vec<&String>, Vec<&String>) = parts.iter().partition(|part| part.ends_with('!'));
        let together: String = parts.into_iter().map(String::as_str).collect();
        let expected = format!("{together}!");
            prop_assert!(whole.is_empty() || *whole[0] == expected);
    }
}

/// A tree of very many directories, in each a file that has every word of the task but the name of one directory.
fn large_tree(directories: usize) -> Vec<(String, String)> {
    let words = "/* avoid a deadlock when the journal commit fails */\n".repeat(20);
    let elsewhere = (0..directories).map(|at| (format!("fs/other{at}/journal.c"), words.clone()));
    let own = ["balloc.c", "inode.c", "super.c"].map(|name| (format!("fs/ext4/{name}"), "/* commit */\n".to_owned()));
    elsewhere.chain(own).collect()
}

#[test]
fn a_directory_that_a_task_names_before_its_colon_counts_in_a_large_tree() {
    let files = large_tree(1_500);
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let task = "ext4: avoid deadlock when journal commit fails";
    let ranked = ranking(task, &files);
    let first: Vec<&str> = ranked.iter().take(3).map(|(path, _)| path.as_str()).collect();
    assert!(first.iter().all(|path| path.starts_with("fs/ext4/")), "{first:?}");
    let reasons = &ranked[0].1.evidence;
    let named = "belongs to `ext4`, which the task names";
    assert!(reasons.iter().any(|(reason, _)| reason == named), "{reasons:?}");
}

#[test]
fn a_directory_that_holds_much_of_a_small_project_says_little() {
    let files = large_tree(8);
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let first = first("ext4: avoid deadlock when journal commit fails", &files);
    assert!(first.ends_with("/journal.c"), "{first}");
}

/// The best file for a task and its reasons.
fn best_with_reasons(task: &str, files: &[(&str, &str)]) -> (String, Vec<String>) {
    let (path, best) = ranking(task, files).swap_remove(0);
    (path, best.evidence.into_iter().map(|(reason, _)| reason).collect())
}

#[test]
fn words_side_by_side_count_more_than_words_apart() {
    let apart = "x = leading\ny = slash\n";
    let together = "def strip(one):\n    return one.leading_slash\n";
    // The paths decide nothing.
    for [far, near] in [["a.py", "b.py"], ["b.py", "a.py"]] {
        let (path, reasons) = best_with_reasons("keep the leading slash", &[(far, apart), (near, together)]);
        assert_eq!(path, near);
        let expected = "has words of the task side by side";
        assert!(reasons.iter().any(|reason| reason == expected), "{reasons:?}");
    }
}

#[test]
fn a_name_as_written_counts_more_than_its_words() {
    let files = [
        ("a.py", "x = 'max cost'\ny = 'max'\nz = 'cost'\n"),
        ("b.py", "x = '--max-cost'\ny = 1\nz = 2\n"),
    ];
    let (path, reasons) = best_with_reasons("accept --max-cost twice", &files);
    assert_eq!(path, "b.py");
    let expected = "has names or quotations of the task as written";
    assert!(reasons.iter().any(|reason| reason == expected), "{reasons:?}");
}
