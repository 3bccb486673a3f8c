//! Definitions and uses of the languages that have no table for outlines.

use super::details::told;

#[test]
fn details_of_c() {
    let text = r#"#include "store.h"
#include <stdio.h>
#define LIMIT 10
#define SQUARE(x) ((x) * (x))
typedef struct row row_t;
/* Keeps rows. */
struct store {
    int size;
    struct row *rows;
};
enum color { RED, GREEN };
static int count = 0;
int open_store(const char *path);
/* Opens it. */
static struct store *
open_store(const char *path)
{
    int local = SQUARE(2);
    struct store *s = load(path);
    s->size = s->ops.read(local);
    return s;
}
"#;
    insta::assert_snapshot!(told("a.c", text), @r"
        3-3 Value  LIMIT: #define LIMIT 10
        4-4 Function  SQUARE: #define SQUARE(x) ((x) * (x))
        5-5 Type  row_t: typedef struct row row_t
        6/7-10 Type  store: struct store
        8-8 Value store size: int size
        9-9 Value store rows: struct row *rows
        11-11 Type  color: enum color
        11-11 Value color RED: RED
        11-11 Value color GREEN: GREEN
        12-12 Value  count: static int count = 0
        14/15-22 Function  open_store: static struct store * open_store(const char *path)
        Call: 18:SQUARE 19:load 20:read
        Import: 
        Attribute: 20:size 20:ops
        Type: 5:row 9:row 15:store 19:store
        Name: 4:x 13:open_store 13:path 16:path 19:path 20:s 20:s 20:local 21:s
        ");
}

#[test]
fn details_of_cpp() {
    let text = r#"#include "a.h"
namespace lib {
/// Keeps rows.
template <typename T>
class Store : public Base {
public:
    Store(int n) : size_(n) {}
    ~Store() {}
    int size() const { return size_; }
    T *get(int at);
private:
    int size_;
};
template <typename T>
T *Store<T>::get(int at) { return std::find(at).first(); }
void Other::run() { auto f = [](int x) { return x; }; helper<int>(f); }
struct Point { int x; };
using Alias = Point;
}
"#;
    insta::assert_snapshot!(told("a.cpp", text), @r"
        2-19 Module  lib: namespace lib
        3/4-13 Type lib Store: class Store : public Base
        7-7 Method lib.Store Store: Store(int n) : size_(n)
        8-8 Method lib.Store Store: ~Store()
        9-9 Method lib.Store size: int size() const
        12-12 Value lib.Store size_: int size_
        14-15 Method lib.Store get: T *Store<T>::get(int at)
        16-16 Method lib.Other run: void Other::run()
        17-17 Type lib Point: struct Point
        17-17 Value lib.Point x: int x
        18-18 Type lib Alias: using Alias = Point
        Call: 15:find 15:first 16:helper
        Import: 
        Attribute: 7:size_ 10:get
        Type: 4:T 5:Base 10:T 14:T 15:T 15:Store 15:T 18:Point
        Name: 7:n 7:n 9:size_ 10:at 15:at 15:std 15:at 16:Other 16:x 16:x 16:f
        ");
}

#[test]
fn details_of_csharp() {
    let text = r#"using System.Collections;
using Lib;
namespace App.Core
{
    /// <summary>Keeps rows.</summary>
    [Serializable]
    public class Store : Base, IStore
    {
        private int size;
        public int Size { get; set; }
        public Store(int n) { size = n; }
        public List<Row> Open(string path) { return Load(path).Rows<Row>(x => x.Id); }
    }
    enum Color { Red }
    interface IStore { void Close(); }
}
"#;
    insta::assert_snapshot!(told("a.cs", text), @r"
        3-16 Module  Core: namespace App.Core
        5/6-13 Type Core Store: [Serializable] public class Store : Base, IStore
        9-9 Value Core.Store size: private int size
        10-10 Value Core.Store Size: public int Size
        11-11 Method Core.Store Store: public Store(int n)
        12-12 Method Core.Store Open: public List<Row> Open(string path)
        14-14 Type Core Color: enum Color
        14-14 Value Core.Color Red: Red
        15-15 Type Core IStore: interface IStore
        15-15 Method Core.IStore Close: void Close()
        Call: 12:Load 12:Rows
        Import: 1:Collections 2:Lib
        Attribute: 12:Id
        Type: 6:Serializable 7:Base 7:IStore 12:List 12:Row 12:Row
        Name: 1:System 3:App 11:n 11:size 11:n 12:path 12:path 12:x
        ");
}

#[test]
fn details_of_ruby() {
    let text = r#"require_relative "base"
module Lib
  # Keeps rows.
  class Store < Base
    LIMIT = 1
    attr_reader :size
    def initialize(n)
      @size = n
    end
    def open?(path) = load(path)
    def self.make
      new(1).open?("x")
    end
  end
end
"#;
    insta::assert_snapshot!(told("a.rb", text), @r"
        2-15 Module  Lib: module Lib
        3/4-14 Type Lib Store: class Store < Base
        5-5 Value Lib.Store LIMIT: LIMIT = 1
        6-6 Value Lib.Store size: attr_reader :size
        7-9 Method Lib.Store initialize: def initialize(n)
        10-10 Method Lib.Store open?: def open?(path)
        11-13 Method Lib.Store make: def self.make
        Call: 1:require_relative 6:attr_reader 10:load 12:new 12:open?
        Import: 
        Attribute: 8:size
        Type: 4:Base
        Name: 7:n 8:n 10:path 10:path
        ");
}

#[test]
fn details_of_php() {
    let text = r#"<?php
namespace App\Core;
use Lib\Base;
/** Keeps rows. */
class Store extends Base implements Items {
    const LIMIT = 1;
    private int $size = 0;
    public function open(string $path): Row {
        $x = load($path);
        return $this->inner->fetch(Helper::make($x), new Tree());
    }
}
function helper() { return strlen("x"); }
"#;
    insta::assert_snapshot!(told("a.php", text), @r"
        4/5-12 Type  Store: class Store extends Base implements Items
        6-6 Value Store LIMIT: const LIMIT = 1
        7-7 Value Store size: private int $size = 0
        8-11 Method Store open: public function open(string $path): Row
        13-13 Function  helper: function helper()
        Call: 9:load 10:fetch 10:make 10:Tree 13:strlen
        Import: 3:Base
        Attribute: 10:inner
        Type: 5:Base 5:Items 8:Row 10:Helper
        Name: 2:App 2:Core 3:Lib 8:path 9:x 9:path 10:this 10:x
        ");
}

#[test]
fn details_of_kotlin() {
    let text = r#"package lib

import java.util.List

/** Keeps rows. */
class Store(val size: Int) : Base() {
    val rows: List<Row> = listOf()

    fun open(path: String): Row {
        val local = load(path)
        return local.first { it.ok() }
    }

    companion object {
        fun make() = Store(1)
    }
}

object Single {
    fun go() {}
}
enum class Color { RED }
fun String.ext(): Int = size.toInt()
typealias Rows = List<Row>
"#;
    insta::assert_snapshot!(told("a.kt", text), @r"
        5/6-17 Type  Store: class Store(val size: Int) : Base()
        6-6 Value Store size: val size: Int
        7-7 Value Store rows: val rows: List<Row> = listOf()
        9-12 Method Store open: fun open(path: String): Row
        15-15 Method Store make: fun make()
        19-21 Type  Single: object Single
        20-20 Method Single go: fun go()
        22-22 Type  Color: enum class Color
        22-22 Value Color RED: RED
        23-23 Method String ext: fun String.ext(): Int
        24-24 Type  Rows: typealias Rows = List<Row>
        Call: 6:Base 7:listOf 10:load 11:first 11:ok 15:Store 23:toInt
        Import: 3:List
        Attribute: 
        Type: 6:Int 7:List 7:Row 9:String 9:Row 23:String 23:Int 24:List 24:Row
        Name: 1:lib 3:java 3:util 9:path 10:path 11:local 11:it 23:size
        ");
}

#[test]
fn details_of_bash() {
    let text = r#"#!/bin/bash
LIMIT=1
# Opens it.
open_store() {
    local path=$1
    load "$path" | sort
}
function other { open_store "$LIMIT"; }
open_store x
"#;
    insta::assert_snapshot!(told("a.sh", text), @r"
        1/2-2 Value  LIMIT: LIMIT=1
        3/4-7 Function  open_store: open_store()
        8-8 Function  other: function other
        Call: 6:load 6:sort 8:open_store 9:open_store
        Import: 
        Attribute: 
        Type: 
        Name: 5:1 6:path 8:LIMIT
        ");
}

#[test]
fn details_of_lua() {
    let text = r#"local M = {}
-- Opens it.
function M.open(path) return load(path) end
function M:size() return self.rows:count() end
local function helper() M.open("x") end
M.close = function() helper() end
local f = function() end
M.limit = 1
local text = require("lib.text")
return M
"#;
    insta::assert_snapshot!(told("a.lua", text), @r"
        1-1 Value  M: local M = {}
        2/3-3 Method M open: function M.open(path)
        4-4 Method M size: function M:size()
        5-5 Function  helper: local function helper()
        6-6 Method M close: M.close = function() helper() end
        7-7 Function  f: local f = function() end
        8-8 Value M limit: M.limit = 1
        Call: 3:load 4:count 5:open 6:helper 9:require
        Import: 9:text
        Attribute: 4:rows
        Type: 
        Name: 3:M 3:path 3:path 4:M 4:self 5:M 6:M 8:M 10:M
        ");
}

#[test]
fn details_of_elixir() {
    let text = r#"defmodule Lib.Store do
  alias Lib.Base
  use GenServer
  @limit 1
  # Opens it.
  def open(path) do
    path |> load() |> Base.rows(path)
  end
  defp size(x) when x > 1, do: x
  def zero, do: 0
  defmacro m(x) do
    quote do: unquote(x)
  end
end
"#;
    insta::assert_snapshot!(told("a.ex", text), @r"
        1-14 Type  Lib.Store: defmodule Lib.Store
        5/6-8 Method Lib.Store open: def open(path)
        9-9 Method Lib.Store size: defp size(x) when x > 1, do: x
        10-10 Method Lib.Store zero: def zero, do: 0
        11-13 Method Lib.Store m: defmacro m(x)
        Call: 7:load 7:rows
        Import: 2:Lib.Base 3:GenServer
        Attribute: 4:limit
        Type: 7:Base
        Name: 1:defmodule 2:alias 3:use 6:def 6:path 7:path 7:path 9:defp 9:x 9:x 9:x 10:def 11:defmacro 11:x 12:quote 12:unquote 12:x
        ");
}
