use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;

const SAMPLE: &str = r#"# A service with *two* faces

It is a **daemon** and a `command line`, and everything that a model asks for goes through a skill: see
[the design](https://example.org/design "why") and src/main.py:12.
A second line of the same paragraph.

Setext heading
--------------

- first item, long enough that it has to be wrapped when the terminal is a narrow one
- second with `code`
  - nested
  - nested again

    with a paragraph
3. third kind

   ```python
   def f(x):
	return x
   ```
4. fourth

> quoted text that
> goes on for longer than a narrow terminal is wide

| Language | Files | What it is |
|:---|---:|---|
| Python | 46 | the sources |
| reStructuredText | 26 | **documentation**, with a description that takes some room |

```
code is not reflowed, however long the line is that somebody wrote into the file, see?
```

<details>
raw html
</details>

***

Ends with a hard  
break and <b>inline</b> html.
"#;

fn terminal(width: usize, colour: bool) -> Terminal {
    Terminal { width, colour }
}

/// All of a text at once.
fn whole(text: &str, terminal: Terminal) -> String {
    let mut markdown = Markdown::new(terminal);
    let begun = markdown.push(text);
    begun + &markdown.finish()
}

#[test]
fn names_with_underscores_stay_what_they_are() {
    for text in [
        "See src/click/__init__.py:8 and (a/_b_.py:1).",
        "__init__ calls _private_",
    ] {
        assert_eq!(whole(text, terminal(80, true)).trim_end(), text);
    }
    assert_eq!(whole("__two words__", terminal(80, false)).trim_end(), "**two words**");
}

#[test]
fn at_80_columns() {
    insta::assert_snapshot!(whole(SAMPLE, terminal(80, false)), @r#"
    # A service with *two* faces

    It is a **daemon** and a `command line`, and everything that a model asks for
    goes through a skill: see the design (https://example.org/design "why") and
    src/main.py:12. A second line of the same paragraph.

    ## Setext heading
    • first item, long enough that it has to be wrapped when the terminal is a
      narrow one
    • second with `code`
      • nested
      • nested again

        with a paragraph
    3. third kind

       python
           def f(x):
            return x
    4. fourth

    │ quoted text that goes on for longer than a narrow terminal is wide

    Language          Files  What it is
    ────────────────  ─────  ───────────────────────────────────────────────────────
    Python               46  the sources
    reStructuredText     26  **documentation**, with a description that takes some
                             room

        code is not reflowed, however long the line is that somebody wrote into the file, see?

    <details>
    raw html
    </details>

    ────────────────────────────────────────

    Ends with a hard
    break and <b>inline</b> html.
    "#);
}

#[test]
fn at_40_columns() {
    insta::assert_snapshot!(whole(SAMPLE, terminal(40, false)), @r#"
    # A service with *two* faces

    It is a **daemon** and a `command line`,
    and everything that a model asks for
    goes through a skill: see the design
    (https://example.org/design "why") and
    src/main.py:12. A second line of the
    same paragraph.

    ## Setext heading
    • first item, long enough that it has to
      be wrapped when the terminal is a
      narrow one
    • second with `code`
      • nested
      • nested again

        with a paragraph
    3. third kind

       python
           def f(x):
            return x
    4. fourth

    │ quoted text that goes on for longer
    │ than a narrow terminal is wide

    Language: Python
    Files: 46
    What it is: the sources

    Language: reStructuredText
    Files: 26
    What it is: **documentation**, with a
    description that takes some room

        code is not reflowed, however long the line is that somebody wrote into the file, see?

    <details>
    raw html
    </details>

    ────────────────────────────────────────

    Ends with a hard
    break and <b>inline</b> html.
    "#);
}

#[test]
fn styles_stand_for_the_marks_where_there_are_colours() {
    let text = "## Two words\n\nA **bold** and *slanted* `code` [link](url).\n";
    insta::assert_snapshot!(whole(text, terminal(80, true)).replace('\x1b', "␛"), @r#"
    ␛[1mTwo words␛[0m

    A ␛[1mbold␛[0m and ␛[3mslanted␛[0m ␛[36mcode␛[0m link ␛[2m(url)␛[0m.
    "#);
}

#[test]
fn a_block_is_shown_as_soon_as_it_is_whole() {
    let mut markdown = Markdown::new(terminal(80, false));
    assert_eq!(markdown.push("# Title"), "");
    assert_eq!(markdown.push("\n"), "# Title\n");
    assert_eq!(markdown.push("A paragraph\nof two lines.\n"), "");
    assert_eq!(markdown.push("\n"), "\nA paragraph of two lines.\n");
    assert_eq!(markdown.push("- one\n- t"), "");
    assert_eq!(markdown.push("wo\n"), "\n• one\n");
    assert_eq!(markdown.push("\nAfter.\n"), "• two\n");
    assert_eq!(markdown.finish(), "\nAfter.\n");
}

#[test]
fn a_row_with_a_cell_too_many_keeps_it() {
    let text = "| a | b |\n|---|---|\n| one | two | three |\n";
    assert!(whole(text, terminal(80, false)).contains("three"));
}

#[test]
fn a_table_that_is_too_wide_becomes_records() {
    let text = "| Name | Description | Remark |\n|---|---|---|\n\
                | extraordinarily_long_identifier | incomprehensibilities | internationalization |\n";
    insta::assert_snapshot!(whole(text, terminal(40, false)), @r#"
    Name: extraordinarily_long_identifier
    Description: incomprehensibilities
    Remark: internationalization
    "#);
}

#[test]
fn what_could_steer_a_terminal_is_not_in_the_rendering() {
    let shown = whole("a\x1b[2Jb `c\x07d`\r\n\n    \x1b]0;x\x07\n", terminal(80, false));
    assert!(!shown.contains(['\x1b', '\x07', '\r']), "{shown:?}");
}

#[test]
fn a_long_block_is_not_parsed_again_at_each_line() {
    let mut text = String::from("```\n");
    for n in 0..20_000 {
        text.push_str(&format!("line {n}\n"));
    }
    let started = std::time::Instant::now();
    let shown = whole(&text, terminal(80, false));
    assert!(shown.contains("line 19999"));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

/// Lines that begin, go on with and end every kind of block, in any order.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just(String::new()),
        Just("```".to_owned()),
        Just("---".to_owned()),
        Just("===".to_owned()),
        Just("|---|---|".to_owned()),
        Just("<div>".to_owned()),
        Just("[ref]: https://example.org/x".to_owned()),
        "[a-z]{1,8}( [a-z`*_&;\\[\\]()!|<>\\\\]{1,12}){0,12}",
        "#{1,6} [a-z]{1,9}( [a-z`*]{1,9}){0,3}",
        "( {0,6})[-*+] [a-z]{1,9}( [a-z`*]{1,9}){0,9}",
        "( {0,6})[0-9]{1,2}[.)] [a-z]{1,9}( [a-z`*]{1,9}){0,9}",
        "( {0,2})> [a-z]{1,9}( [a-z`*]{1,9}){0,9}",
        "\\|( [a-z*`]{1,9} \\|){1,4}",
        "( {4}|\t)[a-z]{1,9}( [a-z]{1,9}){0,9}",
        "[a-zé漢字🦀 ]{1,30}",
    ];
    prop::collection::vec(line, 0..25).prop_map(|lines| lines.join("\n"))
}

fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().filter(|character| character.is_alphanumeric()).collect();
    letters.sort_unstable();
    letters
}

proptest! {
    #[test]
    fn the_pieces_do_not_matter(text in lines(), cuts in prop::collection::vec(0_usize..60, 0..40), width in 10_usize..120) {
        let terminal = terminal(width, false);
        let mut markdown = Markdown::new(terminal);
        let (mut streamed, mut rest) = (String::new(), text.as_str());
        for cut in cuts {
            let at = rest.char_indices().nth(cut).map_or(rest.len(), |(at, _)| at);
            let (piece, after) = rest.split_at(at);
            streamed.push_str(&markdown.push(piece));
            rest = after;
        }
        streamed.push_str(&markdown.push(rest));
        streamed.push_str(&markdown.finish());
        prop_assert_eq!(streamed, whole(&text, terminal));
    }

    #[test]
    fn no_letter_is_lost(text in lines(), width in 10_usize..120) {
        let shown = letters(&whole(&text, terminal(width, false)));
        let mut at = shown.iter();
        for letter in letters(&text) {
            prop_assert!(at.any(|&other| other == letter), "{letter} is missing");
        }
    }

    #[test]
    fn prose_keeps_within_the_width(words in prop::collection::vec("[a-z]{1,20}", 1..60), width in 20_usize..120) {
        let shown = whole(&words.join(" "), terminal(width, false));
        for line in shown.lines() {
            prop_assert!(line.width() <= width, "{line}");
        }
    }
}

#[path = "../../../../tests/fuzz/replay.rs"]
mod replay;

#[test]
fn hostile_markdown_steers_no_terminal() {
    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fuzz");
    replay::replay(&place, "markdown", fuzz::markdown);
}
