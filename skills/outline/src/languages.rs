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
    pub(crate) defines: &'static [DefinitionRule],
    /// Nodes that are types without a name.
    pub(crate) types: &'static [&'static str],
    /// Nodes that are functions without a name.
    pub(crate) functions: &'static [&'static str],
    pub(crate) imports: &'static [&'static str],
    pub(crate) import: fn(Node<'_>, &[u8], &mut Vec<Imported>) -> bool,
}

/// A kind of node that defines something.
#[derive(Debug)]
pub(crate) struct DefinitionRule {
    pub(crate) node: &'static str,
    /// Field with the name.
    pub(crate) field: &'static str,
    pub(crate) kind: DefinitionKind,
    pub(crate) when: DefinitionCondition,
}

/// Condition under which such a node is a definition that other code can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefinitionCondition {
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

const fn define_rule(node: &'static str, field: &'static str, kind: DefinitionKind) -> DefinitionRule {
    DefinitionRule {
        node,
        field,
        kind,
        when: DefinitionCondition::Always,
    }
}

const fn define_when(when: DefinitionCondition, define: DefinitionRule) -> DefinitionRule {
    DefinitionRule { when, ..define }
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
        define_rule("function_definition", "name", DefinitionKind::Function),
        define_rule("class_definition", "name", DefinitionKind::Type),
        define_rule("type_alias_statement", "left", DefinitionKind::Type),
        define_when(
            DefinitionCondition::OutsideFunctions,
            define_rule("assignment", "left", DefinitionKind::Value),
        ),
    ],
    types: &[],
    functions: &[],
    imports: &["import_statement", "import_from_statement", "future_import_statement"],
    import: imports::python_imports,
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
        define_rule("function_declaration", "name", DefinitionKind::Function),
        define_rule("generator_function_declaration", "name", DefinitionKind::Function),
        define_rule("function_signature", "name", DefinitionKind::Function),
        define_rule("method_definition", "name", DefinitionKind::Function),
        define_rule("method_signature", "name", DefinitionKind::Function),
        define_rule("abstract_method_signature", "name", DefinitionKind::Function),
        define_rule("class_declaration", "name", DefinitionKind::Type),
        define_rule("abstract_class_declaration", "name", DefinitionKind::Type),
        define_rule("interface_declaration", "name", DefinitionKind::Type),
        define_rule("type_alias_declaration", "name", DefinitionKind::Type),
        define_rule("enum_declaration", "name", DefinitionKind::Type),
        define_rule("internal_module", "name", DefinitionKind::Module),
        define_rule("public_field_definition", "name", DefinitionKind::Value),
        define_rule("field_definition", "property", DefinitionKind::Value),
        define_when(
            DefinitionCondition::OutsideFunctions,
            define_rule("variable_declarator", "name", DefinitionKind::Value),
        ),
        define_when(
            DefinitionCondition::FunctionValue,
            define_rule("pair", "key", DefinitionKind::Function),
        ),
        define_when(
            DefinitionCondition::Exported,
            define_rule("assignment_expression", "left", DefinitionKind::Function),
        ),
        define_when(
            DefinitionCondition::AssignedToModule,
            define_rule("class", "name", DefinitionKind::Type),
        ),
        define_when(
            DefinitionCondition::AssignedToModule,
            define_rule("function_expression", "name", DefinitionKind::Function),
        ),
        define_when(
            DefinitionCondition::AssignedToModule,
            define_rule("generator_function", "name", DefinitionKind::Function),
        ),
    ],
    types: &["class"],
    functions: &["arrow_function", "function_expression", "generator_function"],
    imports: &["import_statement", "export_statement", "call_expression"],
    import: imports::script_imports,
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
        define_rule("function_item", "name", DefinitionKind::Function),
        define_rule("function_signature_item", "name", DefinitionKind::Function),
        define_rule("macro_definition", "name", DefinitionKind::Function),
        define_rule("struct_item", "name", DefinitionKind::Type),
        define_rule("enum_item", "name", DefinitionKind::Type),
        define_rule("union_item", "name", DefinitionKind::Type),
        define_rule("trait_item", "name", DefinitionKind::Type),
        define_rule("type_item", "name", DefinitionKind::Type),
        define_rule("enum_variant", "name", DefinitionKind::Value),
        define_rule("const_item", "name", DefinitionKind::Value),
        define_rule("static_item", "name", DefinitionKind::Value),
        define_when(
            DefinitionCondition::HasBody,
            define_rule("mod_item", "name", DefinitionKind::Module),
        ),
    ],
    types: &["impl_item"],
    functions: &["closure_expression"],
    imports: &["use_declaration", "extern_crate_declaration", "mod_item"],
    import: imports::rust_imports,
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
        define_rule("function_declaration", "name", DefinitionKind::Function),
        define_rule("method_declaration", "name", DefinitionKind::Method),
        define_rule("method_elem", "name", DefinitionKind::Method),
        define_rule("type_spec", "name", DefinitionKind::Type),
        define_rule("type_alias", "name", DefinitionKind::Type),
        define_when(
            DefinitionCondition::OutsideFunctions,
            define_rule("const_spec", "name", DefinitionKind::Value),
        ),
        define_when(
            DefinitionCondition::OutsideFunctions,
            define_rule("var_spec", "name", DefinitionKind::Value),
        ),
    ],
    types: &[],
    functions: &["func_literal"],
    imports: &["import_spec"],
    import: imports::go_imports,
};

/// Table for Java.
pub static JAVA: Grammar = Grammar {
    names: &["identifier", "type_identifier"],
    over: &["line_comment", "block_comment", "string_literal", "package_declaration"],
    defines: &[
        define_rule("class_declaration", "name", DefinitionKind::Type),
        define_rule("interface_declaration", "name", DefinitionKind::Type),
        define_rule("enum_declaration", "name", DefinitionKind::Type),
        define_rule("record_declaration", "name", DefinitionKind::Type),
        define_rule("annotation_type_declaration", "name", DefinitionKind::Type),
        define_rule("method_declaration", "name", DefinitionKind::Function),
        define_rule("annotation_type_element_declaration", "name", DefinitionKind::Function),
        define_rule("enum_constant", "name", DefinitionKind::Value),
        define_when(
            DefinitionCondition::OutsideFunctions,
            define_rule("variable_declarator", "name", DefinitionKind::Value),
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
    import: imports::java_imports,
};
