# ruff: noqa: E501 - one line of a table is one case
"""Instructions of a warp: lanes exchange, vote and reduce."""

# name | body | operands | result | what comes before
WARP = """
shfl.bfly | shfl.sync.bfly.b32 %t|%p, {a}, {b}, {c}, -1; selp.b32 %u, 1, 0, %p; shl.b32 %t, %t, 1; or.b32 {d}, %t, %u; | b32 shift shift | b32 |
shfl.idx | shfl.sync.idx.b32 %t|%p, {a}, {b}, {c}, -1; selp.b32 %u, 1, 0, %p; shl.b32 %t, %t, 1; or.b32 {d}, %t, %u; | b32 shift shift | b32 |
shfl.up | shfl.sync.up.b32 %t|%p, {a}, {b}, {c}, -1; selp.b32 %u, 1, 0, %p; shl.b32 %t, %t, 1; or.b32 {d}, %t, %u; | b32 shift shift | b32 |
shfl.down | shfl.sync.down.b32 %t|%p, {a}, {b}, {c}, -1; selp.b32 %u, 1, 0, %p; shl.b32 %t, %t, 1; or.b32 {d}, %t, %u; | b32 shift shift | b32 |
shfl.bfly.segments | shfl.sync.bfly.b32 {d}, {a}, {b}, 0x1c03, -1; | b32 lane | b32 |
shfl.up.segments | shfl.sync.up.b32 {d}, {a}, 3, 0x1800, -1; | b32 | b32 |
shfl.down.segments | shfl.sync.down.b32 {d}, {a}, 3, 0x181f, -1; | b32 | b32 |
vote.all | vote.sync.all.pred %p, %q, -1; selp.b32 {d}, 1, 0, %p; | lane | b32 | setp.lt.u32 %q, {a}, 31;
vote.any | vote.sync.any.pred %p, %q, -1; selp.b32 {d}, 1, 0, %p; | lane | b32 | setp.eq.u32 %q, {a}, 7;
vote.uni | vote.sync.uni.pred %p, %q, -1; selp.b32 {d}, 1, 0, %p; | lane | b32 | setp.eq.u32 %q, {a}, 7;
vote.ballot | vote.sync.ballot.b32 {d}, %q, -1; | lane | b32 | setp.lt.u32 %q, {a}, 15;
match.any.b32 | match.any.sync.b32 {d}, %t, -1; | lane | b32 | and.b32 %t, {a}, 3;
match.all.b32 | match.all.sync.b32 %u|%p, %t, -1; selp.b32 {d}, %u, 12345, %p; | lane | b32 | setp.eq.u32 %p, {a}, 9; selp.b32 %t, 1, 0, %p;
match.any.b64 | match.any.sync.b64 {d}, {a}, -1; | u64 | b32 |
redux.add.u32 | redux.sync.add.u32 {d}, {a}, -1; | u32 | u32 |
redux.add.s32 | redux.sync.add.s32 {d}, {a}, -1; | s32 | s32 |
redux.min.u32 | redux.sync.min.u32 {d}, {a}, -1; | u32 | u32 |
redux.min.s32 | redux.sync.min.s32 {d}, {a}, -1; | s32 | s32 |
redux.max.u32 | redux.sync.max.u32 {d}, {a}, -1; | u32 | u32 |
redux.max.s32 | redux.sync.max.s32 {d}, {a}, -1; | s32 | s32 |
redux.and | redux.sync.and.b32 {d}, {a}, -1; | b32 | b32 |
redux.or | redux.sync.or.b32 {d}, {a}, -1; | b32 | b32 |
redux.xor | redux.sync.xor.b32 {d}, {a}, -1; | b32 | b32 |
redux.part | mov.b32 {d}, 0; @%q redux.sync.add.u32 {d}, {a}, %u; | lane | u32 | setp.lt.u32 %q, {a}, 20; vote.sync.ballot.b32 %u, %q, -1;
vote.part | mov.b32 {d}, 0; @%q vote.sync.ballot.b32 {d}, %p, %u; | lane | u32 | setp.lt.u32 %q, {a}, 20; setp.lt.u32 %p, {a}, 10; vote.sync.ballot.b32 %u, %q, -1;
elect | elect.sync %t|%p, -1; selp.b32 %u, 64, 0, %p; or.b32 {d}, %t, %u; | lane | u32 |
"""
