use proptest::prelude::*;

use super::*;

/// Lists the citations found, with `?` behind a doubtful one.
fn found(text: &str) -> String {
    let (citations, _) = parse(text);
    let shown = citations.iter().map(|citation| {
        let mark = if citation.is_doubtful { "?" } else { "" };
        format!("{citation}{mark}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_stands_before_a_path_may_belong_to_it() {
    let wider = |text: &str| {
        let (citations, _) = parse(text);
        let wider = citations.into_iter().flat_map(|citation| citation.wider);
        wider
            .map(|(path, at)| {
                assert!(
                    text[at..].starts_with(path.split(' ').next().unwrap_or_default()),
                    "{text}"
                );
                path
            })
            .collect::<Vec<_>>()
            .join(" | ")
    };
    for (text, expected) in [
        ("src/a.py:1", ""),
        ("see `src/my file.py:1`", "src/my file.py"),
        (
            "(see src/my file.py:1)",
            "(see src/my file.py | see src/my file.py | src/my file.py",
        ),
        ("`it's.py:1`", "it's.py"),
        (
            "`src copy/util (1).ts:1`, `{id}.py:1`",
            "src copy/util (1).ts | copy/util (1).ts | (1).ts | 1).ts | {id}.py | id}.py",
        ),
        ("in @scope/a,b.ts:1", "in @scope/a,b.ts | @scope/a,b.ts"),
        ("one\ntwo file.py:1", "two file.py"),
        (
            "a b c d e f g h.py:1",
            "b c d e f g h.py | c d e f g h.py | d e f g h.py | e f g h.py | f g h.py | g h.py",
        ),
    ] {
        assert_eq!(wider(text), expected, "{text}");
    }
}

#[test]
fn every_form_is_found() {
    for (text, expected) in [
        ("src/a.py:12", "src/a.py:12"),
        ("See `src/a.py:12`.", "src/a.py:12"),
        ("(src/a.py:12-20)", "src/a.py:12-20"),
        ("`src/a.py:12–20`, then", "src/a.py:12-20"),
        ("src/a.py#L12", "src/a.py:12"),
        ("src/a.py#L12-L20", "src/a.py:12-20"),
        ("src/a.py#L12C3-L20C9", "src/a.py:12-20"),
        ("src/a.py#L12-20", "src/a.py:12-20"),
        ("src/a.py:L12-L20", "src/a.py:12-20"),
        ("[the parser](src/a.py#L12)", "src/a.py:12"),
        ("[src/a.py:12](src/a.py#L12)", "src/a.py:12 src/a.py:12"),
        (
            "**src/a.py:12**, src/b.rs:3; lib.rs:4:",
            "src/a.py:12 src/b.rs:3 lib.rs:4",
        ),
        ("| src/a.py:12 | src/b.py:1|", "src/a.py:12 src/b.py:1"),
        ("file.py:12:5: error", "file.py:12"),
        ("src/my\\_file.py:12", "src/my_file.py:12"),
        ("app/[id]/(group)/+page@x.svelte:3", "app/[id]/(group)/+page@x.svelte:3"),
        ("app/[[...slug]]/page.tsx:3", "app/[[...slug]]/page.tsx:3"),
        (
            "Makefile:3 Dockerfile:4 README:1 LICENSE:2",
            "Makefile:3 Dockerfile:4 README:1 LICENSE:2",
        ),
        (
            "Cargo.lock:10 .github/workflows/ci.yml:2",
            "Cargo.lock:10 .github/workflows/ci.yml:2",
        ),
        (
            "./src/a.py:1 ../x.py:2 /etc/hosts.conf:3",
            "./src/a.py:1 ../x.py:2 /etc/hosts.conf:3",
        ),
        ("src\\click\\core.py:12", "src/click/core.py:12"),
        ("C:\\src\\a.py:12", "/src/a.py:12"),
        ("größe/naïve.py:7", "größe/naïve.py:7"),
        ("src/a.py:0 src/a.py:20-12", "src/a.py:0 src/a.py:20-12"),
        ("a.py:99999999999999999999", "a.py:18446744073709551615"),
        ("bin/tool:12 Thing:3", "bin/tool:12? Thing:3?"),
        ("x: 3/a.py:5 and a.py:12:b.py:3", "3/a.py:5 b.py:3"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn what_only_looks_like_one_is_not_taken_for_one() {
    for text in [
        "http://host:80/a.py:12",
        "see https://github.com/x/y/blob/main/src/a.py#L12, and (http://127.0.0.1:8000)",
        "localhost:8000/docs",
        "python:3.12",
        "src/a.py:12abc",
        "src/a.py:12_000",
        "std::fs::read",
        "tests/test_a.py::test_b",
        "uvicorn main:app",
        "src/:12",
        "50 %: 3",
        "a.py: 12 tests",
        "`a.py`: 3 functions",
        "**README.md**: 93 %",
        "a.py: 1.5 and a.py: 99%",
        "[a.py](https://example.org/a.py):12",
        "a.py lines, 3",
        "a.py has 12 lines",
    ] {
        assert_eq!(found(text), "", "{text}");
    }
    for text in [
        "at 12:30",
        "12:30:45",
        "2024-01-01T12:30:45",
        "localhost:8000",
        "10.0.0.1:8080",
        "example.com:443",
        "version 1.2:3",
        "text[self.pos:10]",
        "text[self.f:10]",
        "click.core:300",
        "node:18",
        "ghcr.io/org/app:12",
        "Note:1",
        "TCP/IP:80",
        "a.py: 12",
        "a.py: 12:30",
        "a.py on line: 3",
        "Step: 3",
        "{\"a.json\": 3}",
        "`localhost`:8000, **node**:18, (host):80",
        "the command line 5, on line 88",
        "the notice line 3, the changes lines 4-5",
        "Python 3.12 line 3",
        "//host/path:80",
        "${BASE}/api/users:8000",
        "/health:80",
    ] {
        let (citations, _) = parse(text);
        assert!(
            citations.iter().all(|citation| citation.is_doubtful),
            "{text}: {citations:?}"
        );
    }
}

#[test]
fn a_line_may_stand_apart_from_its_path() {
    for (text, expected) in [
        ("`calc.py`:99", "calc.py:99"),
        ("**calc.py**:77, ***calc.py***:78", "calc.py:77 calc.py:78"),
        ("**`calc.py`**:77-80", "calc.py:77-80"),
        ("[a.py](a.py):12", "a.py:12"),
        ("[the parser](src/a.py):12, [`a.py`]:13", "src/a.py:12 a.py:13"),
        ("calc.py line 88", "calc.py:88"),
        ("`calc.py` lines 50-60.", "calc.py:50-60"),
        ("calc.py (lines 50-60)", "calc.py:50-60"),
        ("calc.py (line 5), `calc.py` (L50-L60)", "calc.py:5 calc.py:50-60"),
        ("calc.py, line 88; calc.py: lines 3–4", "calc.py:88 calc.py:3-4"),
        (
            "calc.py at line 88, calc.py on\tline 3, calc.py\nLines 5 to 6",
            "calc.py:88 calc.py:3 calc.py:5-6",
        ),
        ("calc.py: 99", "calc.py:99?"),
        ("`calc.py`: 99 and calc.py: 7 for the rest", "calc.py:99? calc.py:7?"),
        ("calc.py:1 to 90", "calc.py:1-90"),
        ("calc.py:1 through 90 divides", "calc.py:1-90"),
        ("calc.py:9 to 3 modules, calc.py:9 to 3.", "calc.py:9 calc.py:9-3"),
        ("Makefile line 3", "Makefile:3?"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn each_number_of_a_list_is_a_citation() {
    for (text, expected) in [
        ("calc.py:1,99", "calc.py:1 calc.py:99"),
        ("`calc.py:12, 45`", "calc.py:12 calc.py:45"),
        ("calc.py:12, 45-50 and 60.", "calc.py:12 calc.py:45-50 calc.py:60"),
        ("calc.py lines 1, 2, and 3", "calc.py:1 calc.py:2 calc.py:3"),
        ("calc.py#L12,L45", "calc.py:12 calc.py:45"),
        ("calc.py:12, 45 and b.py:3", "calc.py:12 calc.py:45 b.py:3"),
        ("calc.py: 12, 45", "calc.py:12? calc.py:45?"),
        ("calc.py:12, 3 tests and 5 %", "calc.py:12"),
        ("calc.py:12 and 3 others", "calc.py:12"),
        ("calc.py:1,000", "calc.py:1"),
        ("calc.py:1, 2.py:3", "calc.py:1 2.py:3"),
        ("calc.py:1, 2024-01-05, at 12:30", "calc.py:1 12:30?"),
        ("calc.py:1, 3.12, 4th", "calc.py:1"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
    let (citations, _) = parse("a.py:1, 22-33");
    let places: Vec<_> = citations.into_iter().map(|citation| citation.at).collect();
    assert_eq!(places, [0..6, 8..13]);
}

#[test]
fn paths_that_lead_out_of_the_repository_are_citations() {
    assert_eq!(
        found("`/etc/passwd:1`, (../../etc/passwd:2), /usr/bin/x line 3"),
        "/etc/passwd:1 ../../etc/passwd:2 /usr/bin/x:3"
    );
}

#[test]
fn an_answer_of_any_size_costs_a_bounded_amount() {
    let many = "src/a.py:1 ".repeat(CITATIONS_MAX + 1);
    let (citations, is_cut) = parse(&many);
    assert_eq!((citations.len(), is_cut), (CITATIONS_MAX, true));
    let long = format!("{} src/a.py:1", "é".repeat(CITED_TEXT_BYTES_MAX));
    assert_eq!(parse(&long), (Vec::new(), true));
    assert!(!parse("src/a.py:1").1);
    let list = format!("src/a.py:1{}", ",1".repeat(2 * CITATIONS_MAX));
    let (citations, is_cut) = parse(&list);
    assert_eq!((citations.len(), is_cut), (CITATIONS_MAX, true));
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in any::<String>()) {
        let (citations, _) = parse(&text);
        for pair in citations.windows(2) {
            prop_assert!(pair[0].at.end <= pair[1].at.start);
        }
        for citation in citations {
            prop_assert!(text.get(citation.at.clone()).is_some());
            prop_assert!(!citation.path.is_empty());
        }
    }

    #[test]
    fn what_resembles_citations_is_read_without_harm(text in "([a-c/.]{1,3}|:|, | |[0-9]{1,2}|line | to |`|\\)){0,40}") {
        let (citations, _) = parse(&text);
        for pair in citations.windows(2) {
            prop_assert!(pair[0].at.end <= pair[1].at.start, "{text}: {pair:?}");
        }
    }

    #[test]
    fn a_citation_is_found_whatever_surrounds_it(
        folders in proptest::collection::vec("[a-z_][a-z0-9_-]{0,6}", 1..4),
        name in "[a-z_][a-z0-9_]{0,8}",
        extension in "(py|rs|ts|go|toml|md)",
        first in 1..100_000_u64,
        more in 0..50_u64,
        around in 0..13_usize,
        before in "[A-Za-z ,;]{0,12}",
        after in "[A-Za-z ,;]{0,12}",
    ) {
        let path = format!("{}/{name}.{extension}", folders.join("/"));
        let last = first + more;
        let lines = if more == 0 { first.to_string() } else { format!("{first}-{last}") };
        let cited = match around {
            0 => format!("`{path}:{lines}`"),
            1 => format!("({path}:{lines})"),
            2 => format!("[here]({path}#L{lines})"),
            3 => format!("**{path}:{lines}**"),
            4 => format!(" {path}:{lines}."),
            5 => format!(" {path}:{lines},"),
            6 => format!("\"{path}:{lines}\""),
            7 => format!("`{path}`:{lines}"),
            8 => format!("**{path}**:{lines}"),
            9 => format!("[here]({path}):{lines}"),
            10 => format!("`{path}` (lines {lines})"),
            11 => format!(" {path}, line {lines}"),
            _ => format!("|{path}:{lines}|"),
        };
        let text = format!("{before}{cited} {after}");
        let (citations, _) = parse(&text);
        prop_assert_eq!(citations.len(), 1, "{}", text);
        prop_assert_eq!(&citations[0].path, &path);
        prop_assert_eq!((citations[0].first, citations[0].last), (first, last));
        prop_assert!(!citations[0].is_doubtful);
        prop_assert!(cited.contains(&text[citations[0].at.clone()]));
    }

    #[test]
    fn hosts_times_and_versions_are_never_certain(
        host in "[a-z]{1,8}(\\.(com|org|net|io))?",
        port in 1..65_536_u32,
        hour in 0..24_u32,
        minute in 0..60_u32,
    ) {
        let text = format!("at {hour:02}:{minute:02} {host}:{port} http://{host}:{port}/a.py:3 v1.{hour}.{minute}:{port}");
        let (citations, _) = parse(&text);
        // A host may have the name of a well-known file.
        prop_assume!(file_role::detect_language(&host).is_none() && !is_document(&host));
        prop_assert!(citations.iter().all(|citation| citation.is_doubtful), "{text}: {citations:?}");
    }
}
