use super::*;

fn shown(path: &str, text: &str) -> String {
    let syntax = Syntax::from_path(path).expect("the language is known");
    let (mut definitions, mut imports) = (Vec::new(), Vec::new());
    read_symbols(
        syntax,
        text,
        |d| {
            definitions.push(format!(
                "{}:{}{}",
                d.line,
                d.name,
                if d.outer { "" } else { " (inner)" }
            ))
        },
        |import| imports.push(format!("{import:?}")),
    );
    format!("{}\n{}", definitions.join(" "), imports.join("\n"))
}

#[test]
fn python() {
    let text = "import os, a.b as c\nfrom . import x\nfrom ..pkg.mod import (  # why\n    One,\n    Two as T,\n)\nfrom q import *\n\
                LIMIT: int = 3\nx == 1\n\n@wrap\nasync def run(a):\n    def inner(): ...\n\nclass Client(Base):\n    def get(self):\n        \
                def deep(): ...\n";
    insta::assert_snapshot!(shown("a.py", text), @r#"
    8:LIMIT 12:run 13:inner 15:Client 16:get 17:deep (inner)
    Python { level: 0, module: "os", name: None }
    Python { level: 0, module: "a.b", name: None }
    Python { level: 1, module: "", name: Some("x") }
    Python { level: 2, module: "pkg.mod", name: Some("One") }
    Python { level: 2, module: "pkg.mod", name: Some("Two") }
    Python { level: 0, module: "q", name: None }
    "#);
}

#[test]
fn javascript_and_typescript() {
    let text = "import React, { useState } from 'react';\nimport './side';\nimport {\n  a,\n} from \"./many\";\nexport * from './re';\n\
                const x = require('./x'), y = require(\"../y\");\nexport default class App extends B {\n  async load(id) {\n    if (id) {\n    }\n  }\n\
                \x20 get size() {\n}\nexport const handler = async () => {};\nexports.run = run;\nFoo.prototype.bar = function () {};\n\
                export interface Options {}\nconst p = import('./lazy');\n";
    insta::assert_snapshot!(shown("a.ts", text), @r#"
    8:App 9:load 13:size 15:handler 16:run 17:bar 18:Options 19:p
    Path("react")
    Path("./side")
    Path("./many")
    Path("./re")
    Path("./x")
    Path("../y")
    Path("./lazy")
    "#);
}

#[test]
fn an_exported_class_or_function_is_defined_by_its_own_name() {
    let text = "module.exports = class Cart extends Base {\n  add(item) {\n  }\n}\nmodule.exports = async function total() {};\n\
                module.exports = compose(function () {\nmodule.exports = other;\nmodule.exports.sum = function () {};\n";
    insta::assert_snapshot!(shown("a.js", text), @"1:Cart 2:add 5:total 8:sum");
}

#[test]
fn rust() {
    let text = "pub mod api;\nmod inline {\n}\nuse crate::api::{A, B};\npub(crate) use super::x::Y as Z;\npub const fn new() {}\n\
                const MAX: u32 = 1;\npub(super) async fn go() {}\npub struct S;\nimpl S {\n    pub unsafe fn f() {}\n}\nmacro_rules! m { }\n";
    insta::assert_snapshot!(shown("a.rs", text), @r#"
    6:new 7:MAX 8:go 9:S 11:f 13:m
    RustModule("api")
    RustUse("crate::api::")
    RustUse("super::x::Y as Z")
    "#);
}

#[test]
fn go_java_and_c() {
    let go = "package a\nimport \"fmt\"\nimport (\n\tx \"example.com/m/x\"\n)\nfunc (c *Context) Next() {\n\tvar y = 1\n}\nfunc New() {}\ntype T struct {\n";
    insta::assert_snapshot!(shown("a.go", go), @r#"
    6:Next 9:New 10:T
    Go("fmt")
    Go("example.com/m/x")
    "#);
    let java = "import a.b.C;\nimport static a.D.*;\npublic final class Main<T> {\n    private static int count(String s) {\n        return helper(s);\n";
    insta::assert_snapshot!(shown("Main.java", java), @r#"
    3:Main 4:count
    Java("a.b.C")
    Java("a.D")
    "#);
    insta::assert_snapshot!(shown("a.c", "#include <stdio.h>\n#include \"util/x.h\"\n"), @r#"

    Path("util/x.h")
    "#);
}

/// Lists the files to which the imports of each file resolve.
fn resolved(files: &[(&str, &str)]) -> String {
    let paths: Vec<&str> = files.iter().map(|file| file.0).collect();
    let mut listed = paths.clone();
    listed.sort_unstable();
    let text = |path: &str| Some(files.iter().find(|file| file.0 == path)?.1.to_owned());
    let resolver = Resolver::new(&paths, Packages::read(&listed, text));
    let mut shown = String::new();
    for (path, text) in files {
        let mut found = Vec::new();
        // A manifest.
        let Some(syntax) = Syntax::from_path(path) else {
            continue;
        };
        read_symbols(
            syntax,
            text,
            |_| {},
            |import| found.extend(resolver.resolve(path, &import)),
        );
        let found: Vec<&str> = found.iter().map(|at| paths[*at as usize]).collect();
        if !found.is_empty() {
            shown.push_str(&format!("{path} -> {}\n", found.join(" ")));
        }
    }
    shown
}

#[test]
fn imports_of_python_resolve_in_a_source_root_and_relatively() {
    insta::assert_snapshot!(resolved(&[
        ("src/shop/__init__.py", "from .cart import Cart\nfrom . import prices\n"),
        ("src/shop/cart.py", "from shop.prices import total\nimport shop.db.models\nimport os\n"),
        ("src/shop/prices.py", "from .db import models, missing\nfrom .. import nowhere\n"),
        ("src/shop/db/__init__.py", ""),
        ("src/shop/db/models.py", "from ..cart import Cart\nfrom shop import db\n"),
    ]), @r"
    src/shop/__init__.py -> src/shop/cart.py src/shop/prices.py
    src/shop/cart.py -> src/shop/prices.py src/shop/db/models.py
    src/shop/prices.py -> src/shop/db/models.py src/shop/db/__init__.py
    src/shop/db/models.py -> src/shop/cart.py src/shop/db/__init__.py
    ");
}

#[test]
fn imports_of_scripts_resolve_with_and_without_extension() {
    insta::assert_snapshot!(resolved(&[
        ("lib/a.ts", "import './b.js';\nimport x from './c';\nimport y from '../other';\nimport z from 'package';\nimport '../../out';\n"),
        ("lib/b.ts", ""),
        ("lib/c/index.js", "require('../a')"),
        ("other.d.ts", ""),
    ]), @r"
    lib/a.ts -> lib/b.ts lib/c/index.js other.d.ts
    lib/c/index.js -> lib/a.ts
    ");
}

#[test]
fn an_alias_of_a_project_means_its_sources() {
    insta::assert_snapshot!(resolved(&[
        ("web/src/pages/home.tsx", "import a from '@/lib/api';\nimport b from '~/ui/card';\nimport c from 'lib/api';\nimport d from '@scope/lib/api';\n"),
        ("web/src/lib/api.ts", "import x from 'lodash/get';\nimport y from '@/none';\n"),
        ("web/src/ui/card/index.tsx", ""),
        ("kit/src/routes/+page.svelte", "import { db } from '$lib/db';\n"),
        ("kit/src/lib/db.ts", ""),
        ("app/page.tsx", "import a from '@/components/nav';\n"),
        ("components/nav.tsx", ""),
    ]), @r"
    web/src/pages/home.tsx -> web/src/lib/api.ts web/src/ui/card/index.tsx web/src/lib/api.ts
    kit/src/routes/+page.svelte -> kit/src/lib/db.ts
    app/page.tsx -> components/nav.tsx
    ");
}

#[test]
fn a_module_of_lua_is_a_file_below_the_root_or_the_importing_folder() {
    let paths = [
        "lua/main.lua",
        "lua/util/init.lua",
        "lua/util/text.lua",
        "spec/text.lua",
    ];
    let resolver = Resolver::new(&paths, Packages::default());
    let found = |from: &str, module| resolver.resolve(from, &ParsedImport::Path(module));
    assert_eq!(found("lua/main.lua", "util.text"), [2]);
    assert_eq!(found("spec/text.lua", "util"), [1]);
    assert_eq!(found("spec/text.lua", "lua.main"), [0]);
    assert!(found("spec/text.lua", "socket").is_empty());
}

#[test]
fn imports_of_rust_go_java_and_c_resolve() {
    insta::assert_snapshot!(resolved(&[
        ("host/src/lib.rs", "pub mod api;\nmod turn;\nuse crate::turn::run;\n"),
        ("host/src/api.rs", "mod inner;\n"),
        ("host/src/api/inner.rs", "use super::super::turn;\nuse my_sdk::text::X;\n"),
        ("host/src/turn/mod.rs", "use crate::api::Event;\nuse std::fmt;\n"),
        ("crates/my-sdk/src/lib.rs", ""),
        ("crates/my-sdk/src/text.rs", "use super::nothing;"),
        ("gin.go", "import \"github.com/x/gin/render\"\n"),
        ("render/json.go", ""),
        ("render/json_test.go", ""),
        ("java/a/b/C.java", "import a.b.D;\nimport java.util.List;\n"),
        ("java/a/b/D.java", ""),
        ("c/main.c", "#include \"util/x.h\"\n"),
        ("c/include/util/x.h", ""),
    ]), @r"
    host/src/lib.rs -> host/src/api.rs host/src/turn/mod.rs host/src/turn/mod.rs
    host/src/api.rs -> host/src/api/inner.rs
    host/src/api/inner.rs -> host/src/turn/mod.rs crates/my-sdk/src/text.rs
    host/src/turn/mod.rs -> host/src/api.rs
    gin.go -> render/json.go
    java/a/b/C.java -> java/a/b/D.java
    c/main.c -> c/include/util/x.h
    ");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "\\PC{0,400}", lines in proptest::collection::vec("(from|import|use|mod|def|class|func|export|const|#include|\\(|\\)|[a-zé.\"' ]){0,12}", 0..12)) {
        let text = format!("{text}\n{}", lines.join("\n"));
        let count = text.lines().count() as u32;
        for path in ["a.py", "a.ts", "a.rs", "a.go", "a.java", "a.c", "a.rb"] {
            let resolver = Resolver::new(&[path], Packages::default());
            read_symbols(Syntax::from_path(path).expect("known"), &text, |d| assert!(d.line >= 1 && d.line <= count), |import| {
                let _ = resolver.resolve(path, &import);
            });
        }
    }
}

#[test]
fn ruby() {
    let text = "require 'set'\nrequire(\"shop/cart\")\nrequire_relative 'store'\nautoload :Db, 'shop/db'\n\
                module Shop\n  class Cart::Line < Base\n    def self.total(x)\n    def empty?\n";
    insta::assert_snapshot!(shown("a.rb", text), @r#"
    5:Shop 6:Line 7:total 8:empty
    Ruby("set")
    Ruby("shop/cart")
    RubyRelative("store")
    Ruby("shop/db")
    "#);
}

#[test]
fn imports_of_ruby_resolve_below_a_load_path_and_relatively() {
    insta::assert_snapshot!(resolved(&[
        ("lib/shop.rb", "require 'shop/cart'\nrequire_relative 'shop/store'\nrequire 'json'\n"),
        ("lib/shop/cart.rb", "require 'set'\n"),
        ("lib/shop/store.rb", "require_relative '../shop'\n"),
        ("spec/cart_spec.rb", "require 'spec_helper'\n"),
        ("spec/spec_helper.rb", "require 'shop'\n"),
        ("tools/set.rb", ""),
    ]), @r"
    lib/shop.rb -> lib/shop/cart.rb lib/shop/store.rb
    lib/shop/store.rb -> lib/shop.rb
    spec/cart_spec.rb -> spec/spec_helper.rb
    spec/spec_helper.rb -> lib/shop.rb
    ");
}

#[test]
fn packages_are_known_by_the_names_in_their_manifests() {
    insta::assert_snapshot!(resolved(&[
        ("crates/core/Cargo.toml", "[package]\nname = \"tool-core\"\n"),
        ("crates/core/src/lib.rs", "mod text;\npub use text::{Line, deep::Word};\n"),
        ("crates/core/src/text.rs", "mod deep;\n"),
        ("crates/core/src/text/deep.rs", ""),
        ("crates/outline/src/lib.rs", ""),
        ("crates/cli/src/main.rs", "mod outline;\nuse outline::X;\nuse tool_core::Line;\nuse tool_core::Word;\nuse core::fmt;\n"),
        ("crates/cli/src/outline.rs", "use crate::main;\n"),
        ("packages/a/package.json", "{\n  \"name\": \"@shop/a\"\n}\n"),
        ("packages/a/src/index.ts", "import { b } from '@shop/a/money/sums';\n"),
        ("packages/a/src/money/sums.ts", "import a from '@shop/a';\nimport c from '@shop/none';\n"),
    ]), @r"
    crates/core/src/lib.rs -> crates/core/src/text.rs crates/core/src/text.rs
    crates/core/src/text.rs -> crates/core/src/text/deep.rs
    crates/cli/src/main.rs -> crates/cli/src/outline.rs crates/cli/src/outline.rs crates/core/src/text.rs crates/core/src/text/deep.rs
    crates/cli/src/outline.rs -> crates/cli/src/main.rs
    packages/a/src/index.ts -> packages/a/src/money/sums.ts
    packages/a/src/money/sums.ts -> packages/a/src/index.ts
    ");
}
