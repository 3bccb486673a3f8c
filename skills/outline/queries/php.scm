; Begun from tree-sitter-php's tags.scm.
(comment) @comment
(attribute_list) @attribute
(declaration_list) @body

(namespace_definition name: (namespace_name (name) @name .)) @scope.type
(interface_declaration name: (name) @name) @definition.type
(trait_declaration name: (name) @name) @definition.type
(class_declaration name: (name) @name) @definition.type
(enum_declaration name: (name) @name) @definition.type
(enum_case name: (name) @name) @definition.value
(function_definition name: (name) @name) @definition.function
(method_declaration name: (name) @name) @definition.function
(property_declaration (property_element (variable_name (name) @name))) @definition.value
(const_declaration (const_element (name) @name)) @definition.value
(anonymous_function) @scope.function
(arrow_function) @scope.function

(namespace_use_clause (name) @name) @reference.import
(namespace_use_clause (qualified_name (name) @name)) @reference.import
(function_call_expression function: (name) @name) @reference.call
(function_call_expression function: (qualified_name (name) @name)) @reference.call
(scoped_call_expression name: (name) @name) @reference.call
(member_call_expression name: (name) @name) @reference.call
(nullsafe_member_call_expression name: (name) @name) @reference.call
(object_creation_expression (name) @name) @reference.call
(object_creation_expression (qualified_name (name) @name)) @reference.call
(member_access_expression name: (name) @name) @reference.attribute
(nullsafe_member_access_expression name: (name) @name) @reference.attribute
(scoped_property_access_expression name: (variable_name (name) @name)) @reference.attribute
(class_constant_access_expression (name) @name .) @reference.attribute
(named_type (name) @name) @reference.type
(named_type (qualified_name (name) @name)) @reference.type
(base_clause (name) @name) @reference.type
(base_clause (qualified_name (name) @name)) @reference.type
(class_interface_clause (name) @name) @reference.type
(class_interface_clause (qualified_name (name) @name)) @reference.type
(use_declaration (name) @name) @reference.type
(scoped_call_expression scope: (name) @name) @reference.type
(attribute (name) @name) @reference.type
(name) @name @reference.name
