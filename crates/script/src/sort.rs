//! `table.sort`: Lua's quicksort with the same steps, so that equal elements end up where Lua puts them. The worst case is quadratic, and
//! without a comparing function no instruction of Lua runs, so comparisons count as steps, after which the host is asked.

use crate::lua::{Kind, Stack};
use std::ffi::c_int;

/// Whether the value in slot `a` sorts before the one in slot `b`.
fn before(lua: Stack, a: c_int, b: c_int) -> bool {
    lua.state().step(lua);
    if lua.kind(2) == Kind::Nil {
        return lua.less(a, b);
    }
    lua.copy(2);
    lua.copy(a - 1);
    lua.copy(b - 2);
    lua.call(2, 1);
    let answer = lua.boolean(-1);
    lua.pop(1);
    answer
}

/// Sets items `i` and `j` to the two values on top.
fn set_two(lua: Stack, i: c_int, j: c_int) {
    lua.raw_set_at(1, i);
    lua.raw_set_at(1, j);
}

/// Exchanges items `i` and `j` if their order is wrong.
fn order(lua: Stack, i: c_int, j: c_int) {
    lua.raw_get_at(1, i);
    lua.raw_get_at(1, j);
    if before(lua, -1, -2) { set_two(lua, i, j) } else { lua.pop(2) }
}

/// Partitions the items between `low` and `up` around the pivot on top; returns where the pivot ends up.
fn partition(lua: Stack, low: c_int, up: c_int) -> c_int {
    let (mut i, mut j) = (low, up - 1);
    loop {
        loop {
            i += 1;
            lua.raw_get_at(1, i);
            if !before(lua, -1, -2) {
                break;
            }
            if i > up {
                lua.fail(format_args!("invalid order function for sorting"))
            }
            lua.pop(1);
        }
        loop {
            j -= 1;
            lua.raw_get_at(1, j);
            if !before(lua, -3, -1) {
                break;
            }
            if j < low {
                lua.fail(format_args!("invalid order function for sorting"))
            }
            lua.pop(1);
        }
        if j < i {
            lua.pop(3);
            return i;
        }
        set_two(lua, i, j);
    }
}

fn quicksort(lua: Stack, mut low: c_int, mut up: c_int) {
    while low < up {
        order(lua, low, up);
        if up - low == 1 {
            return;
        }
        let middle = low + (up - low) / 2;
        lua.raw_get_at(1, middle);
        lua.raw_get_at(1, low);
        if before(lua, -2, -1) {
            set_two(lua, middle, low);
        } else {
            lua.pop(1);
            lua.raw_get_at(1, up);
            if before(lua, -1, -2) { set_two(lua, middle, up) } else { lua.pop(2) }
        }
        if up - low == 2 {
            return;
        }
        // The pivot stays on the stack, and is put in the last place but one.
        lua.raw_get_at(1, middle);
        lua.copy(-1);
        lua.raw_get_at(1, up - 1);
        set_two(lua, middle, up - 1);
        let i = partition(lua, low, up);
        lua.raw_get_at(1, up - 1);
        lua.raw_get_at(1, i);
        set_two(lua, up - 1, i);
        // Only the shorter part recurses, so the depth is logarithmic.
        if i - low < up - i {
            quicksort(lua, low, i - 1);
            low = i + 1;
        } else {
            quicksort(lua, i + 1, up);
            up = i - 1;
        }
    }
}

/// `table.sort(table [, before])`.
pub(crate) fn sort(lua: Stack) -> c_int {
    lua.table_argument(1);
    let Ok(count) = c_int::try_from(lua.length(1)) else { lua.fail(format_args!("array too big")) };
    if !lua.reserve(200) {
        lua.fail(format_args!("stack overflow"))
    }
    if !matches!(lua.kind(2), Kind::None | Kind::Nil) {
        lua.function_argument(2);
    }
    lua.set_top(2);
    quicksort(lua, 1, count);
    0
}
