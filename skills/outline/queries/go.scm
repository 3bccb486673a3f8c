; Begun from tree-sitter-go's tags.scm.
(comment) @comment
(type_declaration) @wrapper
(const_declaration) @wrapper
(var_declaration) @wrapper
(field_declaration_list) @body

(function_declaration name: (identifier) @name) @definition.function
(method_declaration name: (field_identifier) @name) @definition.method
(method_elem name: (field_identifier) @name) @definition.method
(type_spec name: (type_identifier) @name) @definition.type
(type_alias name: (type_identifier) @name) @definition.type
(const_spec name: (identifier) @name) @definition.value
(var_spec name: (identifier) @name) @definition.value
(field_declaration name: (field_identifier) @name) @definition.value
(method_declaration receiver: (parameter_list (parameter_declaration type: (type_identifier) @name))) @owner
(method_declaration receiver: (parameter_list (parameter_declaration type: (pointer_type (type_identifier) @name)))) @owner
(method_declaration receiver: (parameter_list (parameter_declaration type: (generic_type type: (type_identifier) @name)))) @owner
(method_declaration receiver: (parameter_list (parameter_declaration type: (pointer_type (generic_type type: (type_identifier) @name))))) @owner
(func_literal) @scope.function

(import_spec name: (package_identifier) @name) @reference.import
(import_spec path: (interpreted_string_literal (interpreted_string_literal_content) @name)) @reference.import
(call_expression function: (identifier) @name) @reference.call
(call_expression function: (parenthesized_expression (identifier) @name)) @reference.call
(call_expression function: (selector_expression field: (field_identifier) @name)) @reference.call
(selector_expression field: (field_identifier) @name) @reference.attribute
(keyed_element key: (literal_element (identifier) @name)) @reference.attribute
(field_identifier) @name @reference.attribute
(type_identifier) @name @reference.type
(package_identifier) @name @reference.name
(identifier) @name @reference.name
