//! Meaning of the nodes in each grammar. The names of nodes and fields are those of the grammars.

use tree_sitter::Node;

use crate::{DefinitionKind, Imported, imports};

/// A language, as far as a walk needs it.
#[derive(Debug)]
pub struct Grammar {
    /// Leaves that are names.
    pub(crate) names: &'static [&'static str],
    /// Nodes to skip.
    pub(crate) over: &'static [&'static str],
    pub(crate) defines: &'static [Define],
    /// Nodes that are types without a name.
    pub(crate) types: &'static [&'static str],
    /// Nodes that are functions without a name.
    pub(crate) functions: &'static [&'static str],
    pub(crate) imports: &'static [&'static str],
    pub(crate) import: fn(Node<'_>, &[u8], &mut Vec<Imported>) -> bool,
}

/// A kind of node that defines something.
#[derive(Debug)]
pub(crate) struct Define {
    pub(crate) node: &'static str,
    /// Field with the name.
    pub(crate) field: &'static str,
    pub(crate) kind: DefinitionKind,
    pub(crate) when: When,
}

/// Condition under which such a node is a definition that other code can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    OutsideFunctions,
    HasBody,
    /// The field `value` holds a function.
    FunctionValue,
    /// An assignment to a part of an exported object.
    Exported,
    /// The node is assigned to `module.exports`.
    AssignedToModule,
}

const fn define(node: &'static str, field: &'static str, kind: DefinitionKind) -> Define {
    Define {
        node,
        field,
        kind,
        when: When::Always,
    }
}

const fn when(when: When, define: Define) -> Define {
    Define { when, ..define }
}

/// Table for Python.
pub static PYTHON: Grammar = Grammar {
    names: &["identifier"],
    // Expressions of Python hold no statements, and most of a file is expressions.
    over: &[
        "argument_list",
        "assert_statement",
        "attribute",
        "await",
        "binary_operator",
        "boolean_operator",
        "call",
        "comment",
        "comparison_operator",
        "concatenated_string",
        "conditional_expression",
        "decorator",
        "delete_statement",
        "dictionary",
        "dictionary_comprehension",
        "generator_expression",
        "lambda",
        "list",
        "list_comprehension",
        "not_operator",
        "parameters",
        "parenthesized_expression",
        "raise_statement",
        "return_statement",
        "set",
        "set_comprehension",
        "string",
        "subscript",
        "tuple",
        "type",
        "unary_operator",
    ],
    defines: &[
        define("function_definition", "name", DefinitionKind::Function),
        define("class_definition", "name", DefinitionKind::Type),
        define("type_alias_statement", "left", DefinitionKind::Type),
        when(
            When::OutsideFunctions,
            define("assignment", "left", DefinitionKind::Value),
        ),
    ],
    types: &[],
    functions: &[],
    imports: &["import_statement", "import_from_statement", "future_import_statement"],
    import: imports::python,
};

/// Table for JavaScript, TypeScript and their variants with markup.
pub static SCRIPT: Grammar = Grammar {
    names: &[
        "identifier",
        "property_identifier",
        "private_property_identifier",
        "shorthand_property_identifier",
        "shorthand_property_identifier_pattern",
        "type_identifier",
    ],
    over: &["comment", "regex", "string"],
    defines: &[
        define("function_declaration", "name", DefinitionKind::Function),
        define("generator_function_declaration", "name", DefinitionKind::Function),
        define("function_signature", "name", DefinitionKind::Function),
        define("method_definition", "name", DefinitionKind::Function),
        define("method_signature", "name", DefinitionKind::Function),
        define("abstract_method_signature", "name", DefinitionKind::Function),
        define("class_declaration", "name", DefinitionKind::Type),
        define("abstract_class_declaration", "name", DefinitionKind::Type),
        define("interface_declaration", "name", DefinitionKind::Type),
        define("type_alias_declaration", "name", DefinitionKind::Type),
        define("enum_declaration", "name", DefinitionKind::Type),
        define("internal_module", "name", DefinitionKind::Module),
        define("public_field_definition", "name", DefinitionKind::Value),
        define("field_definition", "property", DefinitionKind::Value),
        when(
            When::OutsideFunctions,
            define("variable_declarator", "name", DefinitionKind::Value),
        ),
        when(When::FunctionValue, define("pair", "key", DefinitionKind::Function)),
        when(
            When::Exported,
            define("assignment_expression", "left", DefinitionKind::Function),
        ),
        when(When::AssignedToModule, define("class", "name", DefinitionKind::Type)),
        when(
            When::AssignedToModule,
            define("function_expression", "name", DefinitionKind::Function),
        ),
        when(
            When::AssignedToModule,
            define("generator_function", "name", DefinitionKind::Function),
        ),
    ],
    types: &["class"],
    functions: &["arrow_function", "function_expression", "generator_function"],
    imports: &["import_statement", "export_statement", "call_expression"],
    import: imports::script,
};

/// Table for Rust.
pub static RUST: Grammar = Grammar {
    names: &[
        "identifier",
        "type_identifier",
        "field_identifier",
        "shorthand_field_identifier",
    ],
    over: &[
        "line_comment",
        "block_comment",
        "string_literal",
        "raw_string_literal",
        "lifetime",
    ],
    defines: &[
        define("function_item", "name", DefinitionKind::Function),
        define("function_signature_item", "name", DefinitionKind::Function),
        define("macro_definition", "name", DefinitionKind::Function),
        define("struct_item", "name", DefinitionKind::Type),
        define("enum_item", "name", DefinitionKind::Type),
        define("union_item", "name", DefinitionKind::Type),
        define("trait_item", "name", DefinitionKind::Type),
        define("type_item", "name", DefinitionKind::Type),
        define("enum_variant", "name", DefinitionKind::Value),
        define("const_item", "name", DefinitionKind::Value),
        define("static_item", "name", DefinitionKind::Value),
        when(When::HasBody, define("mod_item", "name", DefinitionKind::Module)),
    ],
    types: &["impl_item"],
    functions: &["closure_expression"],
    imports: &["use_declaration", "extern_crate_declaration", "mod_item"],
    import: imports::rust,
};

/// Table for Go.
pub static GO: Grammar = Grammar {
    names: &[
        "identifier",
        "type_identifier",
        "field_identifier",
        "package_identifier",
    ],
    over: &[
        "comment",
        "interpreted_string_literal",
        "raw_string_literal",
        "package_clause",
    ],
    defines: &[
        define("function_declaration", "name", DefinitionKind::Function),
        define("method_declaration", "name", DefinitionKind::Method),
        define("method_elem", "name", DefinitionKind::Method),
        define("type_spec", "name", DefinitionKind::Type),
        define("type_alias", "name", DefinitionKind::Type),
        when(
            When::OutsideFunctions,
            define("const_spec", "name", DefinitionKind::Value),
        ),
        when(
            When::OutsideFunctions,
            define("var_spec", "name", DefinitionKind::Value),
        ),
    ],
    types: &[],
    functions: &["func_literal"],
    imports: &["import_spec"],
    import: imports::go,
};

/// Table for Java.
pub static JAVA: Grammar = Grammar {
    names: &["identifier", "type_identifier"],
    over: &["line_comment", "block_comment", "string_literal", "package_declaration"],
    defines: &[
        define("class_declaration", "name", DefinitionKind::Type),
        define("interface_declaration", "name", DefinitionKind::Type),
        define("enum_declaration", "name", DefinitionKind::Type),
        define("record_declaration", "name", DefinitionKind::Type),
        define("annotation_type_declaration", "name", DefinitionKind::Type),
        define("method_declaration", "name", DefinitionKind::Function),
        define("annotation_type_element_declaration", "name", DefinitionKind::Function),
        define("enum_constant", "name", DefinitionKind::Value),
        when(
            When::OutsideFunctions,
            define("variable_declarator", "name", DefinitionKind::Value),
        ),
    ],
    types: &[],
    functions: &[
        "lambda_expression",
        "constructor_declaration",
        "compact_constructor_declaration",
        "static_initializer",
    ],
    imports: &["import_declaration"],
    import: imports::java,
};
