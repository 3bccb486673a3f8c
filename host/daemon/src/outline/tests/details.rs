//! Definitions and uses of each language, questions over a repository, and a component that lies about them.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::{embedded, liar};
use tool_context::{LookupError, ReferenceForm, SymbolReader, SyntaxParser};
use tool_repository::{OpenError, Options, Repository, ScanError};

/// A repository with these files.
fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, std::sync::Arc<Repository>) {
    let folder = tempfile::tempdir().expect("there is room");
    for (path, text) in files {
        let place = folder.path().join(path);
        std::fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).expect("folders can be made");
        std::fs::write(place, text).expect("files can be written");
    }
    let repository = Repository::open(folder.path(), &Options::default()).expect("it opens");
    (folder, repository)
}

/// Formats a file: its definitions, then its uses by kind.
pub(super) fn told(path: &str, text: &str) -> String {
    let (_folder, repository) = repository(&[(path, text)]);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let mut told = String::new();
    for one in reader.outline(path).expect("it is read") {
        let comment = one.comment_line.map_or_else(String::new, |line| format!("{line}/"));
        told += &format!(
            "{comment}{}-{} {:?} {} {}: {}\n",
            one.first_line, one.last_line, one.form, one.container, one.name, one.signature
        );
    }
    let uses = reader.list_uses(path, 0..=u32::MAX).expect("it is read");
    for kind in ["Call", "Import", "Attribute", "Type", "Name"] {
        let names: Vec<String> = uses
            .iter()
            .filter(|one| matches!(one.form, ReferenceForm::Use(form) if format!("{form:?}") == kind))
            .map(|one| format!("{}:{}", one.line, one.name))
            .collect();
        told += &format!("{kind}: {}\n", names.join(" "));
    }
    told
}

#[test]
fn details_of_python() {
    let text = r#"from os import path as p
# Keeps rows.
@final
class Store(Base):
    LIMIT: int = 1

    @cached
    def get(self, key: Key) -> Row:
        """Gets."""
        local = load(key)
        return self.inner.fetch(local)
"#;
    insta::assert_snapshot!(told("a.py", text), @r"
        2/3-11 Type  Store: class Store(Base)
        5-5 Value Store LIMIT: LIMIT: int = 1
        7-11 Method Store get: def get(self, key: Key) -> Row
        Call: 3:final 7:cached 10:load 11:fetch
        Import: 1:os 1:path
        Attribute: 11:inner
        Type: 4:Base 5:int 8:Key 8:Row
        Name: 1:p 8:self 8:key 10:key 11:self 11:local
        ");
}

#[test]
fn details_of_javascript() {
    let text = r#"import { one } from "./one.js";
/** Shows things. */
export class View extends Base {
    #secret = 1;
    render(props) { return <Panel size={props.size} on={() => this.draw(one)} />; }
}
// Starts it.
module.exports.start = function (a) { help(a); };
const walk = (x) => new Tree(x);
"#;
    insta::assert_snapshot!(told("a.jsx", text), @r"
        2/3-6 Type  View: class View extends Base
        4-4 Value View #secret: #secret = 1
        5-5 Method View render: render(props)
        7/8-8 Function  start: module.exports.start = function (a) { help(a); }
        9-9 Function  walk: walk = (x) => new Tree(x)
        Call: 5:Panel 5:draw 8:help 9:Tree
        Import: 1:one
        Attribute: 5:size 5:size 5:on 8:exports
        Type: 3:Base
        Name: 5:props 5:props 5:one 8:module 8:a 8:a 9:x 9:x
        ");
}

#[test]
fn a_variable_that_holds_a_module_is_an_import() {
    let text = r#"const ApiError = require("../ApiError");
const { Token, User: Person } = require("../models");
var pick = require("lodash").pick, debug = require("debug")("app");
const { load } = await import("./load.js");
app.use = function use(handler) { return new ApiError(Token, Person, pick); };
"#;
    insta::assert_snapshot!(told("a.js", text), @r#"
        3-3 Value  debug: debug = require("debug")("app")
        5-5 Function  use: app.use = function use(handler) { return new ApiError(Token, Person, pick); }
        Call: 1:require 2:require 3:require 3:require 5:ApiError
        Import: 1:ApiError 2:Token 2:User 2:Person 3:pick 4:load
        Attribute: 3:pick
        Type: 
        Name: 5:app 5:use 5:handler 5:Token 5:Person 5:pick
        "#);
}

#[test]
fn a_second_name_in_an_import_or_export_is_imported() {
    let text = r#"import { one as uno, two } from "./one";
import * as all from "./all";
export { three as third } from "./three";
export * as four from "./four";
"#;
    for path in ["a.js", "a.ts"] {
        let found = told(path, text);
        let imports = "Import: 1:one 1:uno 1:two 2:all 3:three 3:third 4:four\n";
        assert!(found.contains(imports), "{path}: {found}");
    }
}

#[test]
fn functions_of_an_object_belong_to_its_name() {
    let found = told("a.js", "const api = { total() {}, load: async () => 1 };\n");
    assert!(
        found.contains("Method api total") && found.contains("Method api load"),
        "{found}"
    );
}

#[test]
fn what_a_module_exports_has_its_own_name() {
    let text = r#"module.exports = class Cart extends Base {
    add(item) { this.push(item); }
};
module.exports.total = function sum(a) { help(a); };
"#;
    insta::assert_snapshot!(told("a.js", text), @r"
        1-3 Type  Cart: class Cart extends Base
        2-2 Method Cart add: add(item)
        4-4 Function  total: module.exports.total = function sum(a) { help(a); }
        Call: 2:push 4:help
        Import: 
        Attribute: 1:exports 4:exports
        Type: 1:Base
        Name: 1:module 2:item 2:item 4:module 4:sum 4:a 4:a
        ");
    let text = r#"exports = module.exports = function create(options) { return new Cart(options); };
module.exports = {
    get size() { return 1; },
    fill(item) { push(item); },
    clear: function () { drop(); },
};
"#;
    insta::assert_snapshot!(told("b.js", text), @r"
        1-1 Function  create: function create(options)
        3-3 Function  size: get size()
        4-4 Function  fill: fill(item)
        5-5 Function  clear: clear: function () { drop(); }
        Call: 1:Cart 4:push 5:drop
        Import: 
        Attribute: 1:exports 2:exports
        Type: 
        Name: 1:exports 1:module 1:options 1:options 2:module 4:item 4:item
        ");
    let text = "module.exports = class Cart<T> extends Base<T> {\n    add(item: T) { push(item); }\n};\n";
    insta::assert_snapshot!(told("c.ts", text), @r"
        1-3 Type  Cart: class Cart<T> extends Base<T>
        2-2 Method Cart add: add(item: T)
        Call: 2:push
        Import: 
        Attribute: 1:exports
        Type: 1:T 1:Base 1:T 2:T
        Name: 1:module 2:item 2:item
        ");
}

#[test]
fn details_of_typescript() {
    let text = r#"import type { Shape } from "./shape";
export interface Area<T> extends Shape { size(unit: Unit): number; name: string }
export abstract class Base<T> implements Area<T> {
    private readonly cache: Map<string, T> = new Map();
    public static make<U>(part: Part): U { return build(part).done; }
}
enum Color { Red }
"#;
    insta::assert_snapshot!(told("a.ts", text), @r"
        2-2 Type  Area: interface Area<T> extends Shape
        2-2 Method Area size: size(unit: Unit): number
        2-2 Value Area name: name: string
        3-6 Type  Base: abstract class Base<T> implements Area<T>
        4-4 Value Base cache: private readonly cache: Map<string, T> = new Map()
        5-5 Method Base make: public static make<U>(part: Part): U
        7-7 Type  Color: enum Color
        Call: 4:Map 5:build
        Import: 1:Shape
        Attribute: 5:done
        Type: 2:T 2:Shape 2:Unit 3:T 3:Area 3:T 4:Map 4:T 5:U 5:Part 5:U
        Name: 2:unit 5:part 5:part
        ");
}

#[test]
fn details_of_rust() {
    let text = r#"use std::{fs, path::Path as P};
/// Keeps rows.
#[derive(Debug)]
pub struct Store<T> { rows: Vec<T> }

impl<T: Row> Store<T> {
    /// Opens it.
    pub fn open(path: &P) -> Self {
        println!("{}", path);
        Self { rows: fs::read(path).rows() }
    }
}
"#;
    insta::assert_snapshot!(told("a.rs", text), @r"
        2/3-4 Type  Store: pub struct Store<T>
        4-4 Value Store rows: rows: Vec<T>
        7/8-11 Method Store open: pub fn open(path: &P) -> Self
        Call: 9:println 10:read 10:rows
        Import: 1:fs 1:Path
        Attribute: 10:rows
        Type: 4:T 4:Vec 4:T 6:T 6:Row 6:Store 6:T 8:P 8:Self 10:Self
        Name: 1:std 1:path 1:P 3:derive 3:Debug 8:path 9:path 10:fs 10:path
        ");
}

#[test]
fn details_of_go() {
    let text = r#"package lib

import "fmt"

// Store keeps rows.
type Store struct { rows []Row }

// Open opens it.
func (s *Store) Open(path string) error {
	s.rows = load(path)
	return fmt.Errorf("no %v", s.rows)
}
"#;
    insta::assert_snapshot!(told("a.go", text), @r"
        5/6-6 Type  Store: Store struct { rows []Row }
        6-6 Value Store rows: rows []Row
        8/9-12 Method Store Open: func (s *Store) Open(path string) error
        Call: 10:load 11:Errorf
        Import: 3:fmt
        Attribute: 10:rows 11:rows
        Type: 6:Row 9:Store 9:string 9:error
        Name: 1:lib 9:s 9:path 10:s 10:path 11:fmt 11:s
        ");
}

#[test]
fn details_of_java() {
    let text = r#"import java.util.List;

/** Keeps rows. */
@Final
public class Store<T> extends Base {
    private int size = 0;
    public Store(int size) { this.size = size; }
    /** Opens it. */
    public List<Row> open(String path) { return load(path).rows(); }
}
"#;
    insta::assert_snapshot!(told("A.java", text), @r"
        3/4-10 Type  Store: @Final public class Store<T> extends Base
        6-6 Value Store size: private int size = 0
        7-7 Method Store Store: public Store(int size)
        8/9-9 Method Store open: public List<Row> open(String path)
        Call: 9:load 9:rows
        Import: 1:List
        Attribute: 7:size
        Type: 4:Final 5:T 5:Base 9:List 9:Row 9:String
        Name: 1:java 1:util 7:size 7:size 9:path 9:path
        ");
}

const RUST: &str = "struct Store;\nimpl Store {\n    fn open() { load() }\n}\nfn open() {}\n";

#[test]
fn a_name_is_found_with_all_its_definitions_or_those_of_its_type() {
    let files = [
        ("a.rs", RUST),
        ("b.py", "def open(): pass\n"),
        ("c.txt", "open it, reopen\n"),
    ];
    let (_folder, repository) = repository(&files);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let defined = |name: &str, under: &str| {
        let page = reader.find_definitions(name, under, None).expect("it is looked up");
        let places: Vec<String> = page
            .items
            .iter()
            .map(|one| format!("{}:{}", one.path, one.line))
            .collect();
        places.join(" ")
    };
    assert_eq!(defined("open", ""), "a.rs:3 a.rs:5 b.py:1");
    assert_eq!(defined("open()", "b.py"), "b.py:1");
    assert_eq!(defined("Store.open", ""), "a.rs:3");
    assert_eq!(defined("crate::Store::open", ""), "a.rs:3");
    assert_eq!(defined("Other.open", ""), "");
    let page = reader.find_references("open", "", None).expect("it is looked up");
    let told: Vec<String> = page
        .items
        .iter()
        .map(|one| format!("{}:{} {:?} {}", one.path, one.line, one.form, one.container))
        .collect();
    insta::assert_snapshot!(told.join("\n"), @r"
        a.rs:3 Definition Store
        a.rs:5 Definition 
        b.py:1 Definition 
        c.txt:1 Text
        ");
    let page = reader.find_references("load", "", None).expect("it is looked up");
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].container, "Store.open");
}

#[test]
fn an_answer_is_as_new_as_its_file() {
    let (folder, repository) = repository(&[("a.py", "def one(): pass\n")]);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let line = |name: &str| {
        let page = reader.find_definitions(name, "", None).expect("it is looked up");
        page.items.first().map(|one| one.line)
    };
    assert_eq!((line("one"), line("two")), (Some(1), None));
    // The size stays.
    std::fs::write(folder.path().join("a.py"), "\ndef two(): pass").expect("files can be written");
    assert_eq!((line("one"), line("two")), (None, Some(2)));
}

#[test]
fn hidden_files_have_no_symbols() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nopen\n";
    let files = [
        ("a.rs", RUST),
        (".env", "open=1\n"),
        (".git/hooks/open.py", "def open(): pass\n"),
        ("notes.py", key),
        (".gitignore", "ignored.py\n"),
        ("ignored.py", "def open(): pass\n"),
    ];
    let (_folder, repository) = repository(&files);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let page = reader.find_references("open", "", None).expect("it is looked up");
    assert!(page.items.iter().all(|one| one.path == "a.rs"), "{:?}", page.items);
    for hidden in [".env", ".git/hooks/open.py", "notes.py"] {
        let found = reader.find_references("open", hidden, None);
        assert!(
            matches!(found, Err(LookupError::Open(OpenError::Denied { .. }))),
            "{hidden}"
        );
    }
    let outline = reader.outline("notes.py");
    assert!(matches!(outline, Err(LookupError::Open(OpenError::Denied { .. }))));
}

#[test]
fn many_answers_come_in_pages() {
    let files: Vec<(String, String)> = (0..600)
        .map(|number| (format!("m{number:03}.py"), "def open(): open()\n".repeat(2)))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let (_folder, repository) = repository(&files);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let (mut count, mut pages, mut after) = (0, 0, None);
    loop {
        let page = reader
            .find_references("open", "", after.as_deref())
            .expect("it is looked up");
        (count, pages) = (count + page.items.len(), pages + 1);
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!((count, pages), (2_400, 3));
}

#[test]
fn symbols_are_not_looked_up_for_a_cancelled_call() {
    let (_folder, repository) = repository(&[("a.rs", RUST)]);
    let (parser, cancel) = (embedded(), CancellationToken::new());
    cancel.cancel();
    let reader = SymbolReader {
        repository: &repository,
        parser: &*parser,
        indexes: None,
        cancel: &cancel,
    };
    let found = reader.find_definitions("open", "", None);
    assert!(
        matches!(found, Err(LookupError::Scan(ScanError::Cancelled))),
        "{found:?}"
    );
    let found = reader.find_references("open", "", None);
    assert!(
        matches!(found, Err(LookupError::Scan(ScanError::Cancelled))),
        "{found:?}"
    );
    for outline in [reader.outline("a.rs").err(), reader.list_uses("a.rs", 0..=9).err()] {
        assert!(
            matches!(outline, Some(LookupError::Scan(ScanError::Cancelled))),
            "{outline:?}"
        );
    }
}

#[test]
fn a_lying_parser_tells_no_symbol() {
    let liar = liar();
    for attack in [
        "used beyond",
        "used later",
        "used always",
        "headless",
        "contained",
        "beyond",
        "line",
        "many",
        "spin",
    ] {
        assert_eq!(liar.details("a.py", attack, None), None, "{attack}");
    }
    assert!(
        liar.details("a.py", "used", None)
            .is_some_and(|details| details.uses.len() == 1)
    );
    assert!(
        liar.details("a.py", "honest", None)
            .is_some_and(|details| details.symbols.len() == 1)
    );
}
