; Begun from tree-sitter-c's tags.scm. C++ has these patterns as well.
(comment) @comment
(declaration) @wrapper
(type_definition) @wrapper
(linkage_specification) @wrapper
(field_declaration_list) @body
(enumerator_list) @body

(function_definition declarator: (function_declarator declarator: (identifier) @name)) @definition.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @definition.function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name)))) @definition.function
(function_definition declarator: (parenthesized_declarator (function_declarator declarator: (identifier) @name))) @definition.function
(struct_specifier name: (type_identifier) @name body: (_)) @definition.type
(union_specifier name: (type_identifier) @name body: (_)) @definition.type
(enum_specifier name: (type_identifier) @name body: (_)) @definition.type
(type_definition declarator: (type_identifier) @name) @definition.type
(type_definition declarator: (pointer_declarator declarator: (type_identifier) @name)) @definition.type
(type_definition declarator: (array_declarator declarator: (type_identifier) @name)) @definition.type
(type_definition declarator: (function_declarator declarator: (type_identifier) @name)) @definition.type
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @definition.type
(enumerator name: (identifier) @name) @definition.value
(preproc_def name: (identifier) @name) @definition.value
(preproc_function_def name: (identifier) @name) @definition.function
(declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.value
(declaration declarator: (init_declarator declarator: (pointer_declarator declarator: (identifier) @name))) @definition.value
(declaration declarator: (init_declarator declarator: (array_declarator declarator: (identifier) @name))) @definition.value
(declaration declarator: (identifier) @name) @definition.value
(declaration declarator: (array_declarator declarator: (identifier) @name)) @definition.value
(declaration declarator: (pointer_declarator declarator: (identifier) @name)) @definition.value
(field_declaration declarator: (field_identifier) @name) @definition.value
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @definition.value
(field_declaration declarator: (array_declarator declarator: (field_identifier) @name)) @definition.value

(preproc_include path: (string_literal (string_content) @name)) @import
(call_expression function: (identifier) @name) @reference.call
(call_expression function: (field_expression field: (field_identifier) @name)) @reference.call
(field_expression field: (field_identifier) @name) @reference.attribute
(field_identifier) @name @reference.attribute
(type_identifier) @name @reference.type
(identifier) @name @reference.name
