; Begun from tree-sitter-rust's tags.scm.
(line_comment) @comment
(block_comment) @comment
(attribute_item) @attribute
(declaration_list) @body

(function_item name: (identifier) @name) @definition.function
(function_signature_item name: (identifier) @name) @definition.function
(macro_definition name: (identifier) @name) @definition.function
(struct_item name: (type_identifier) @name) @definition.type
(enum_item name: (type_identifier) @name) @definition.type
(union_item name: (type_identifier) @name) @definition.type
(trait_item name: (type_identifier) @name) @definition.type
(type_item name: (type_identifier) @name) @definition.type
(associated_type name: (type_identifier) @name) @definition.type
(enum_variant name: (identifier) @name) @definition.value
(field_declaration name: (field_identifier) @name) @definition.value
(const_item name: (identifier) @name) @definition.value
(static_item name: (identifier) @name) @definition.value
(mod_item name: (identifier) @name body: (declaration_list)) @definition.module
(impl_item type: (type_identifier) @name) @scope.type
(impl_item type: (generic_type type: (type_identifier) @name)) @scope.type
(impl_item type: (scoped_type_identifier name: (type_identifier) @name)) @scope.type
(closure_expression) @scope.function

(use_declaration argument: (identifier) @name) @reference.import
(use_declaration argument: (scoped_identifier name: (identifier) @name)) @reference.import
(use_list (identifier) @name) @reference.import
(use_list (scoped_identifier name: (identifier) @name)) @reference.import
(use_as_clause path: (identifier) @name) @reference.import
(use_as_clause path: (scoped_identifier name: (identifier) @name)) @reference.import
(mod_item name: (identifier) @name) @reference.import
(call_expression function: (identifier) @name) @reference.call
(call_expression function: (scoped_identifier name: (identifier) @name)) @reference.call
(call_expression function: (field_expression field: (field_identifier) @name)) @reference.call
(call_expression function: (generic_function function: (identifier) @name)) @reference.call
(call_expression function: (generic_function function: (scoped_identifier name: (identifier) @name))) @reference.call
(call_expression function: (generic_function function: (field_expression field: (field_identifier) @name))) @reference.call
(macro_invocation macro: (identifier) @name) @reference.call
(macro_invocation macro: (scoped_identifier name: (identifier) @name)) @reference.call
(field_expression field: (field_identifier) @name) @reference.attribute
(field_identifier) @name @reference.attribute
(shorthand_field_identifier) @name @reference.name
(type_identifier) @name @reference.type
(identifier) @name @reference.name
