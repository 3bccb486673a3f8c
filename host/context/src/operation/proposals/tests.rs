use super::super::citations;
use super::*;

/// Every citation of a file `yes…` holds.
fn checked(text: &str) -> CheckedCitations {
    let judged = citations::parse(text).0.into_iter().map(|citation| {
        let verdict = if citation.path.starts_with("yes") {
            CitationVerdict::Holds
        } else {
            CitationVerdict::NoSuchPlace("there is no such file".to_owned())
        };
        (citation, verdict)
    });
    CheckedCitations {
        citations: judged.collect(),
        is_cut: false,
    }
}

fn read(text: &str) -> Proposals {
    let mut proposals = Proposals::default();
    proposals.take_in(text, 0..text.len(), &checked(text));
    proposals
}

fn numbers(text: &str) -> Vec<(u32, String)> {
    parse(text).into_iter().map(|one| (one.number, one.title)).collect()
}

const ANSWER: &str = "\
The parser is the border.

## 1. Split the parser

- There today: yes.py:3

1. first step
2. second step

### 1. A detail

## 2. Guess

- There today: no.py:9, gone.py:1

## 3. Wish

- It would be nice.

```text
## 4. Not a heading
```

## Left as it is

yes.py:1 is fine.
";

#[test]
fn proposals_are_the_numbered_headings_of_the_highest_level() {
    assert_eq!(
        numbers(ANSWER),
        [(1, "Split the parser".into()), (2, "Guess".into()), (3, "Wish".into())]
    );
}

#[test]
fn other_forms_are_read_too() {
    for text in [
        "### Proposal 1: A\n### Proposal 2 — B\n",
        "## 1) A\n## 2) B",
        "# **1. A**\ntext\n# **2. B**",
        "**1. A**\ntext\n\n**2. B** more",
        "1. A\n   more\n2. B\n",
    ] {
        assert_eq!(numbers(text), [(1, "A".into()), (2, "B".into())], "{text}");
    }
    for text in [
        "",
        "No list.",
        "## 2024 in short",
        "  1. indented",
        "## Notes\n\nThree things.",
    ] {
        assert_eq!(numbers(text), [], "{text}");
    }
}

#[test]
fn a_proposal_needs_one_place_that_holds_and_its_borders_are_kept() {
    let proposals = read(ANSWER);
    let unplaced: Vec<_> = proposals
        .unplaced()
        .into_iter()
        .map(|one| (one.number, one.why))
        .collect();
    assert_eq!(
        unplaced,
        [
            (
                2,
                "`no.py:9` is wrong (there is no such file); `gone.py:1` is wrong (there is no such file)".into()
            ),
            (3, "it cites no place".into())
        ]
    );
    assert_eq!(
        proposals.line(),
        "Proposals without a verified place: 2 (\"Guess\"), 3 (\"Wish\")."
    );
    assert_eq!(read("## 1. A\n\nno.py:1 and yes.py:1").line(), "");
}

#[test]
fn a_correction_replaces_and_a_withdrawal_is_said() {
    let text = format!("{ANSWER}\n\n### 2. Guess\n\nyes.py:7\n\n### 3. Wish\n\n**Withdrawn**: it is there already.\n");
    let checked = checked(&text);
    let mut proposals = Proposals::default();
    proposals.take_in(&text, 0..ANSWER.len(), &checked);
    proposals.correct(&text, ANSWER.len()..text.len(), &checked);
    assert_eq!(proposals.unplaced(), []);
    assert_eq!(proposals.line(), "Proposal withdrawn: 3.");
}

#[test]
fn a_correction_without_a_number_is_about_the_only_one_that_needs_it() {
    let correct = |first: &str, second: &str| {
        let text = format!("{first}{second}");
        let checked = checked(&text);
        let mut proposals = Proposals::default();
        proposals.take_in(&text, 0..first.len(), &checked);
        proposals.correct(&text, first.len()..text.len(), &checked);
        proposals.line()
    };
    assert_eq!(
        correct("## 1. A\n\nyes.py:1\n\n## 2. B\n\nno.py:1\n\n", "It is in yes.py:2."),
        ""
    );
    assert_eq!(
        correct("## 1. A\n\nyes.py:1\n\n## 2. B\n\nno.py:1\n\n", "I am sure."),
        "Proposal without a verified place: 2 (\"B\")."
    );
    assert_eq!(
        correct("## 1. A\n\nno.py:1\n\n## 2. B\n\nno.py:1\n\n", "It is in yes.py:2."),
        "Proposals without a verified place: 1 (\"A\"), 2 (\"B\")."
    );
    // A proposal that had a place keeps it.
    assert_eq!(correct("## 1. A\n\nyes.py:1\n\n", "## 1. A\n\nAs I said."), "");
}

#[test]
fn a_placed_proposal_has_its_text_and_the_places_that_hold() {
    let text = "## 1. Split\n\nyes.py:3-5, no.py:1, yes.py:3-5 and yes.py:9\n\n## 2. Guess\n\nno.py:1\n\n## 3. Old\n\n\
                Withdrawn: yes.py:1 has it.\n\n## 1. Split again\n\nyes.py:1\n";
    let placed = placed_proposals(text, &checked(text));
    let place = |first, last| ProposalPlace {
        path: "yes.py".to_owned(),
        first,
        last,
    };
    let expected = PlacedProposal {
        number: 1,
        title: "Split".to_owned(),
        text: "yes.py:3-5, no.py:1, yes.py:3-5 and yes.py:9".to_owned(),
        places: vec![place(3, 5), place(9, 9)],
    };
    assert_eq!(placed, [expected]);
}

#[test]
fn a_title_is_quoted_on_one_line() {
    let long = format!("## 1. `a`\u{7}\"b\" {}\n", "x".repeat(200));
    assert_eq!(numbers(&long)[0].1.len(), TITLE_CHARS_MAX);
    assert!(numbers(&long)[0].1.starts_with("ab xxx"), "{:?}", numbers(&long));
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in "([#*0-9. a-z`é\n-]|## 1\\. |Withdrawn|yes\\.py:1){0,60}") {
        let proposals = parse(&text);
        for pair in proposals.windows(2) {
            proptest::prop_assert!(pair[0].at.end <= pair[1].at.start);
        }
        proptest::prop_assert!(read(&text).unplaced().len() <= proposals.len());
    }
}
