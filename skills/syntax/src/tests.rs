use proptest::prelude::{any, prop_assert, proptest};
use proptest::{collection, sample};

use super::*;

fn parse(source: &str) -> Module<'_> {
    Module::parse(source.as_bytes()).expect("it is short")
}

/// Asks everything of a module, and checks the places.
fn ask(module: &Module<'_>) {
    for definition in module.definitions() {
        assert!(definition.line <= definition.end_line && definition.first_line <= definition.line);
        assert!(definition.range.end <= module.source().len());
    }
    let words = ["x", "f", "a", "def"];
    for found in module.uses(&words) {
        let rest = &module.source()[found.at..];
        assert!(words.iter().any(|word| rest.starts_with(word.as_bytes())));
    }
    module.imports();
    module.top_level_names();
    module.keyword_arguments("f");
    module.calls(0..module.source().len());
    module.faults(5);
}

#[test]
fn a_whole_file_has_no_faults_and_a_broken_one_says_where() {
    assert_eq!(parse("def f():\n    return 1\n").faults(5), []);
    let faults = parse("def f():\n    return 1\n\nx = (1 +\n\ndef g():\n    pass\n").faults(5);
    assert!(faults.iter().any(|fault| (4..=6).contains(&fault.line)), "{faults:?}");
}

#[test]
fn what_is_too_long_is_not_parsed() {
    let long = vec![b' '; SOURCE_BYTES_MAX as usize + 1];
    assert!(Module::parse(&long).is_none());
}

#[test]
fn what_nests_too_deep_is_not_parsed() {
    let source = format!("x = {}1{}\n", "(".repeat(10_000), ")".repeat(10_000));
    assert!(Module::parse(source.as_bytes()).is_none());
}

/// Kind, line, offset and dotted name of each use.
fn uses(source: &[u8], name: &str) -> Vec<(UseKind, usize, usize, String)> {
    let module = Module::parse(source).expect("it is short");
    let uses = module.uses(&[name]).into_iter();
    uses.map(|found| (found.kind, found.line, found.at, found.dotted))
        .collect()
}

#[test]
fn places_are_those_of_the_bytes() {
    use UseKind::{Call, Definition, Name};
    let found = |kind, line, at| (kind, line, at, "run".to_owned());
    let latin = b"# caf\xe9\nx = 'caf\xe9'; run()\nrun\n";
    assert_eq!(uses(latin, "run"), [found(Call, 2, 19), found(Name, 3, 25)]);
    assert_eq!(Module::parse(latin).expect("it is short").faults(5), []);
    assert_eq!(uses("\u{feff}x = run()\n".as_bytes(), "run"), [found(Call, 1, 7)]);
    assert_eq!(uses("é = 1\nrun()\n".as_bytes(), "run"), [found(Call, 2, 7)]);
    assert_eq!(
        uses(b"if x:\r\n\trun()\r\n\x0c\r\ndef run(): pass\r\n", "run"),
        [found(Call, 2, 8), found(Definition, 4, 22),]
    );
    assert_eq!(
        uses(b"class C:\n\x0c\n  def run(self): pass\n", "run"),
        [found(Definition, 3, 17)]
    );
}

#[test]
fn bytes_of_no_text_are_a_fault_in_code() {
    let module = Module::parse(b"caf\xe9 = 1\nrun()\n").expect("it is short");
    assert_eq!(module.faults(5), [Fault { line: 1, end_line: 1 }]);
    assert_eq!(module.uses(&["run"]).len(), 1);
}

#[test]
fn newer_syntax_is_read() {
    use UseKind::{Attribute, Call, Definition, Name};
    let source = "type Run[T: run] = dict[T, run]\ndef f[run](x: run) -> run:\n    if (run := run()): pass\n    match x:\n        \
                  case {'a': run, **rest} if run: pass\n        case pkg.run(run=1) | [*run]: pass\n    f'{run!r:{run}} run'\n    \
                  try: pass\n    except* run as e: pass\n    print(f'{f\"{run}\"}')\nrun: int\n";
    let module = parse(source);
    assert_eq!(module.faults(5), []);
    assert_eq!(module.definitions()[0].signature, "def f[run](x: run) -> run");
    let kinds: Vec<(UseKind, usize)> = uses(source.as_bytes(), "run")
        .iter()
        .map(|found| (found.0, found.1))
        .collect();
    let expected = [
        (Name, 1),
        (Name, 1),
        (Name, 2),
        (Name, 2),
        (Name, 2),
        (Name, 3),
        (Call, 3),
        (Name, 5),
        (Name, 5),
        (Attribute, 6),
        (Name, 6),
        (Name, 6),
        (Name, 7),
        (Name, 7),
        (Name, 9),
        (Name, 10),
        (Definition, 11),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn python_2_is_read_as_far_as_it_goes() {
    let source = "class A:\n    def f(self):\n        print run(1), 'run'\n        print >>run, x.run\n        exec run\n        \
                  raise Error, run()\n    def g(self):\n        run(`run`, 07, ur'run', 1 <> run)\n";
    let module = parse(source);
    let names: Vec<String> = module.definitions().into_iter().map(|found| found.qualified).collect();
    assert_eq!(names, ["A", "A.f", "A.g"]);
    let lines: Vec<usize> = uses(source.as_bytes(), "run").iter().map(|found| found.1).collect();
    assert_eq!(lines, [3, 4, 4, 5, 6, 8, 8, 8]);
    assert!(module.faults(1)[0].line == 3);
}

#[test]
fn names_that_the_parser_skips_are_found() {
    use UseKind::{Attribute, Name};
    let kinds: Vec<(UseKind, String)> = uses(
        b"x = 1 2 a.run\nimport run run(), b.run.c()\n)) run ]\n'run' # run\n",
        "run",
    )
    .into_iter()
    .filter(|found| found.1 != 2)
    .map(|found| (found.0, found.3))
    .collect();
    assert_eq!(kinds, [(Attribute, "a.run".to_owned()), (Name, "run".to_owned())]);
}

proptest! {
    #[test]
    fn any_bytes_answer(source in collection::vec(any::<u8>(), 0..200)) {
        ask(&Module::parse(&source).expect("it is short"));
    }

    #[test]
    fn any_arrangement_of_python_words_answers(words in collection::vec(
        sample::select(vec![
            "def ", "class ", "f", "(", ")", ":", "\n", "\n    ", "import ", "from ", "as ", ".", "x", "=", "\"",
            "'''", "#", "@", "async ", "await ", ",", "*", "f\"{", "}\"", "\\\n", "lambda ", "return ", "[", "]", "{",
            "}", "match ", "case ", "type ", "if ", "else", "elif ", "with ", "for ", "in ", "not ", "a", "é", "\r",
            "\u{c}", "\t", "try:", "except ", "!", "1", "yield ", "global ", "print ", "\\", "t'", "|", "->", ":=",
        ]), 0..60))
    {
        let source = words.concat();
        let module = Module::parse(source.as_bytes());
        prop_assert!(module.is_some());
        ask(&module.expect("it was checked"));
    }
}
