; Begun from tree-sitter-c-sharp's tags.scm.
(comment) @comment
(block) @body
(declaration_list) @body
(accessor_list) @body
(arrow_expression_clause) @body

(class_declaration name: (identifier) @name) @definition.type
(interface_declaration name: (identifier) @name) @definition.type
(struct_declaration name: (identifier) @name) @definition.type
(record_declaration name: (identifier) @name) @definition.type
(enum_declaration name: (identifier) @name) @definition.type
(delegate_declaration name: (identifier) @name) @definition.type
(method_declaration name: (identifier) @name) @definition.function
(local_function_statement name: (identifier) @name) @definition.function
(constructor_declaration name: (identifier) @name) @definition.method
(property_declaration name: (identifier) @name) @definition.value
(event_declaration name: (identifier) @name) @definition.value
(enum_member_declaration name: (identifier) @name) @definition.value
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.value
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.value
(namespace_declaration name: (identifier) @name) @definition.module
(namespace_declaration name: (qualified_name name: (identifier) @name)) @definition.module
(lambda_expression) @scope.function

(using_directive (identifier) @name) @reference.import
(using_directive (qualified_name name: (identifier) @name)) @reference.import
(invocation_expression function: (identifier) @name) @reference.call
(invocation_expression function: (member_access_expression name: (identifier) @name)) @reference.call
(invocation_expression function: (generic_name (identifier) @name)) @reference.call
(invocation_expression function: (member_access_expression name: (generic_name (identifier) @name))) @reference.call
(invocation_expression function: (conditional_access_expression (member_binding_expression name: (identifier) @name))) @reference.call
(object_creation_expression type: (identifier) @name) @reference.call
(object_creation_expression type: (generic_name (identifier) @name)) @reference.call
(member_access_expression name: (identifier) @name) @reference.attribute
(member_binding_expression name: (identifier) @name) @reference.attribute
(base_list (identifier) @name) @reference.type
(base_list (generic_name (identifier) @name)) @reference.type
(attribute name: (identifier) @name) @reference.type
(variable_declaration type: (identifier) @name) @reference.type
(parameter type: (identifier) @name) @reference.type
(property_declaration type: (identifier) @name) @reference.type
(method_declaration returns: (identifier) @name) @reference.type
(type_argument_list (identifier) @name) @reference.type
(nullable_type type: (identifier) @name) @reference.type
(array_type type: (identifier) @name) @reference.type
(cast_expression type: (identifier) @name) @reference.type
(typeof_expression type: (identifier) @name) @reference.type
(generic_name (identifier) @name) @reference.type
(identifier) @name @reference.name
