; Begun from tree-sitter-java's tags.scm.
(line_comment) @comment
(block_comment) @comment
(block) @body

(class_declaration name: (identifier) @name) @definition.type
(interface_declaration name: (identifier) @name) @definition.type
(enum_declaration name: (identifier) @name) @definition.type
(record_declaration name: (identifier) @name) @definition.type
(annotation_type_declaration name: (identifier) @name) @definition.type
(method_declaration name: (identifier) @name) @definition.function
(constructor_declaration name: (identifier) @name) @definition.method
(compact_constructor_declaration name: (identifier) @name) @definition.method
(annotation_type_element_declaration name: (identifier) @name) @definition.function
(enum_constant name: (identifier) @name) @definition.value
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.value
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.value
(lambda_expression) @scope.function

(import_declaration (scoped_identifier name: (identifier) @name)) @reference.import
(import_declaration (identifier) @name) @reference.import
(method_invocation name: (identifier) @name) @reference.call
(object_creation_expression type: (type_identifier) @name) @reference.call
(object_creation_expression type: (generic_type (type_identifier) @name)) @reference.call
(method_reference (identifier) @name .) @reference.call
(marker_annotation name: (identifier) @name) @reference.type
(annotation name: (identifier) @name) @reference.type
(field_access field: (identifier) @name) @reference.attribute
(type_identifier) @name @reference.type
(identifier) @name @reference.name
