# ruff: noqa: E501 - one line of a table is one case
"""Instructions of one thread: what each takes and gives. Braces stand for all combinations."""

from __future__ import annotations

# opcode pattern | kinds of operands | kind of the result
ARITHMETIC = """
{add,sub,mul}{.rn,.rz,.rm,.rp}{,.ftz}.f32 | f32 f32 | f32
{add,sub,mul}.rn{,.ftz}.sat.f32 | f32 f32 | f32
fma{.rn,.rz,.rm,.rp}{,.ftz}.f32 | f32 f32 f32 | f32
fma.rn{,.ftz}.sat.f32 | f32 f32 f32 | f32
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.f32 | f32 f32 | f32
{abs,neg}{,.ftz}.f32 | f32 | f32
copysign.f32 | f32 f32 | f32
{rcp,sqrt}{.rn,.rz,.rm,.rp}{,.ftz}.f32 | f32 | f32
div{.rn,.rz,.rm,.rp}{,.ftz}.f32 | f32 f32 | f32
div{.full,.approx}{,.ftz}.f32 | f32 f32 | f32
{ex2,lg2,rcp,rsqrt,sqrt,sin,cos}.approx{,.ftz}.f32 | f32 | f32
tanh.approx.f32 | f32 | f32
{rcp,rsqrt}.approx.ftz.f64 | f64 | f64
rsqrt.approx.f64 | f64 | f64
ex2.approx.{f16,ftz.bf16} | {} | {}
{add,sub,mul}{.rn,.rz,.rm,.rp}.f64 | f64 f64 | f64
fma{.rn,.rz,.rm,.rp}.f64 | f64 f64 f64 | f64
{div,sqrt,rcp}.rn.f64 | f64 f64 | f64
{min,max}.f64 | f64 f64 | f64
{add,sub,mul}{,.rn}{,.ftz}{,.sat}.{f16,f16x2} | {} {} | {}
{add,sub,mul}{,.rn}.{bf16,bf16x2} | {} {} | {}
fma.rn{,.ftz}{,.sat,.relu}.{f16,f16x2} | {} {} {} | {}
fma.rn{,.relu}.{bf16,bf16x2} | {} {} {} | {}
fma.rn.oob{,.relu}.{f16,bf16} | {} {} {} | {}
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs}.{f16,f16x2} | {} {} | {}
{min,max}{,.NaN}{,.xorsign.abs}.{bf16,bf16x2} | {} {} | {}
{abs,neg}.{f16,f16x2,bf16,bf16x2} | {} | {}
{abs,neg}.ftz.{f16,f16x2} | {} | {}
tanh.approx.{f16,f16x2,bf16,bf16x2} | {} | {}
ex2.approx.{f16x2,ftz.bf16x2} | {} | {}
{add,sub}.{u32,s32,u64,s64,u16,s16} | {} {} | {}
{add,sub}.sat.s32 | s32 s32 | s32
{add,min,max}.{u16x2,s16x2} | {} {} | {}
add.{u16x2,s16x2} | {} {} | {}
mul.{lo,hi}.{u16,s16,u32,s32,u64,s64} | {} {} | {}
mul.wide.{u16,s16} | {} {} | u32
mul.wide.{u32,s32} | {} {} | u64
mad.{lo,hi}.{u16,s16,u32,s32,u64,s64} | {} {} {} | {}
mad.wide.{u16,s16} | {} {} u32 | u32
mad.wide.{u32,s32} | {} {} u64 | u64
mad.hi.sat.s32 | s32 s32 s32 | s32
mul24.{lo,hi}.{u32,s32} | {} {} | {}
mad24.{lo,hi}.{u32,s32} | {} {} {} | {}
sad.{u16,s16,u32,s32,u64,s64} | {} {} {} | {}
{div,rem}.{u16,s16,u32,s32,u64,s64} | {} {} | {}
{min,max}.{u16,s16,u32,s32,u64,s64} | {} {} | {}
{min,max}.relu.s32 | s32 s32 | s32
{abs,neg}.{s16,s32,s64} | {} | {}
{and,or,xor}.{b16,b32,b64} | {} {} | {}
{not,cnot}.{b16,b32,b64} | {} | {}
shl.{b16,b32,b64} | {} shift | {}
shr.{b16,u16,s16,b32,u32,s32,b64,u64,s64} | {} shift | {}
shf.{l,r}.{clamp,wrap}.b32 | b32 b32 shift | b32
{popc,clz}.{b32,b64} | {} | u32
brev.{b32,b64} | {} | {}
bfind{,.shiftamt}.{u32,s32,u64,s64} | {} | u32
bfe.{u32,s32,u64,s64} | {} shift shift | {}
bmsk.{clamp,wrap}.b32 | shift shift | b32
szext.{clamp,wrap}.{u32,s32} | {} shift | {}
prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16} | b32 b32 b32 | b32
fns.b32 | b32 lane s8 | b32
lop3.b32 | b32 b32 b32 | b32
dp4a.{u32,s32}.{u32,s32} | b32 b32 b32 | b32
dp2a.{lo,hi}.{u32,s32}.{u32,s32} | b32 b32 b32 | b32
slct.{f32,b32}.s32 | {} {} s32 | {}
slct.f32.f32 | f32 f32 f32 | f32
slct.ftz.b32.f32 | b32 b32 f32 | b32
"""

COMPARISONS = """
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32 | f32 f32
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f16 | f16 f16
setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.{bf16,f64} | {} {}
setp.{lt,le,gt,ge,eq,ne}.{s16,s32,s64,u32,u64} | {} {}
setp.{lo,ls,hi,hs}.{u16,u32,u64} | {} {}
testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64} | {}
"""

CONVERSIONS = """
cvt.{u8,s8,u16,s16,u32,s32,u64,s64}.{u8,s8,u16,s16,u32,s32,u64,s64} | {1} | {0}
cvt.sat.{u8,s8,u16,s16,u32,s32}.{u64,s64} | {1} | {0}
cvt.sat.{u8,s8,u16,s16,u64}.{s32} | {1} | {0}
cvt.sat.{u8,s8,u16,s16,s32}.{u32} | {1} | {0}
cvt.sat.{u8,s8}.{u16,s16} | {1} | {0}
cvt.sat.{u16,u32}.s16 | {1} | {0}
cvt.sat.{u8,u16,u32}.s8 | {1} | {0}
cvt.sat.{s8}.u8 | {1} | {0}
cvt{.rn,.rz,.rm,.rp}{,.sat}.{f16,f32}.{u8,s8,u16,s16,u32,s32,u64,s64} | {1} | {0}
cvt{.rn,.rz}.bf16.{u16,s16,u32,s32,u64,s64} | {1} | {0}
cvt{.rn,.rz,.rm,.rp}.f64.{u32,s32,u64,s64} | {1} | {0}
cvt{.rni,.rzi,.rmi,.rpi}{,.sat}.{u8,s8,u16,s16,u32,s32,u64,s64}.{f16,f32,f64} | {1} | {0}
cvt{.rni,.rzi,.rmi,.rpi}.ftz.{u8,s8,u16,s16,u32,s32,u64,s64}.f32 | {1} | {0}
cvt{.rni,.rzi}.{u16,s16,u32,s32,u64,s64}.bf16 | {1} | {0}
cvt{.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}.f32.f32 | f32 | f32
cvt{.rni,.rzi,.rmi,.rpi}{,.sat}.{f16.f16,f64.f64} | {1} | {0}
cvt{.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f16.f32 | f32 | f16
cvt{.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32.f64 | f64 | f32
cvt{.rn,.rz}{,.sat}.f16.f64 | f64 | f16
cvt{,.ftz}{,.sat}.f32.f16 | f16 | f32
cvt{,.ftz}.f32.bf16 | bf16 | f32
cvt{,.sat}.f64.{f16,f32} | {1} | f64
cvt.ftz.f64.f32 | f32 | f64
cvt{.rn,.rz}{,.relu}{,.satfinite}.{f16,bf16}.f32 | f32 | {0}
cvt{.rn,.rz}.{bf16.f16,f16.bf16,bf16.f64} | {1} | {0}
cvt.f64.bf16 | bf16 | f64
cvt{.rn,.rz}{,.relu}{,.satfinite}.{f16x2,bf16x2}.f32 | f32 f32 | {0}
cvt{.rna}{,.satfinite}.tf32.f32 | f32 | f32
cvt{.rn,.rz}{,.relu}.tf32.f32 | f32 | f32
cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f32 | f32 f32 | {0}
cvt.rn.satfinite{,.relu}.{e4m3x2,e5m2x2}.f16x2 | f16x2 | {0}
cvt.rn{,.relu}.f16x2.{e4m3x2,e5m2x2} | {1} | f16x2
cvt.pack.sat.{s16,u16}.s32 | s32 s32 | b32
cvt.pack.sat.{u8,s8}.s32.b32 | s32 s32 b32 | b32
"""

# name | body with {d} {a} {b} {c}, predicates %p and %q, 32-bit %t %u | operands | result
BODIES = """
bfi.b32 | bfi.b32 {d}, {a}, {b}, {c}, %t; | b32 b32 shift | b32 | and.b32 %t, {a}, 63;
bfi.b64 | bfi.b64 {d}, {a}, {b}, {c}, %t; | b64 b64 shift | b64 | mov.b32 %t, 17;
carry.add | add.cc.u32 %t, {a}, {b}; addc.u32 {d}, {c}, {c}; | u32 u32 u32 | u32 |
carry.addc | add.cc.u32 %t, {a}, {b}; addc.cc.u32 %u, {a}, {c}; addc.u32 {d}, %u, 0; | u32 u32 u32 | u32 |
carry.sub | sub.cc.u32 %t, {a}, {b}; subc.u32 {d}, {c}, 5; | u32 u32 u32 | u32 |
carry.mad | mad.lo.cc.u32 %t, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, {c}; | u32 u32 u32 | u32 |
setp.and | setp.lt.s32 %q, {a}, 0; setp.lt.and.f32 %p, {a}, {b}, %q; selp.b32 {d}, 1, 0, %p; | f32 f32 | u32 |
setp.or | setp.lt.s32 %q, {a}, 0; setp.ge.or.f32 %p, {a}, {b}, !%q; selp.b32 {d}, 1, 0, %p; | f32 f32 | u32 |
setp.xor | setp.lt.s32 %q, {a}, 0; setp.gt.xor.s32 %p|%q, {a}, {b}, %q; selp.b32 %t, 2, 0, %q; selp.b32 {d}, 1, 0, %p; or.b32 {d}, {d}, %t; | s32 s32 | u32 |
set.f32 | set.lt.f32.f32 {d}, {a}, {b}; | f32 f32 | f32 |
set.u32 | set.geu.u32.f32 {d}, {a}, {b}; | f32 f32 | u32 |
selp | setp.lt.s32 %p, {a}, {b}; selp.b32 {d}, {a}, {c}, %p; | s32 s32 b32 | b32 |
"""

# atomics on a word that holds {a} and takes {b} (and {c})
ATOMICS = """
{add,min,max,and,or,xor,exch,inc,dec}.{u32} | {} {}
{add,min,max}.{s32,u64} | {} {}
{min,max}.s64 | s64 s64
{and,or,xor,exch}.b64 | b64 b64
add.{f32,f64} | {} {}
add.noftz.{f16,f16x2,bf16,bf16x2} | {} {}
cas.{b32,b64} | {} {} {}
"""
