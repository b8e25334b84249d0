"""The compiler's stages as text: which line of Python each line came from, and what each instruction does.

Every stage is written with locations: `loc(...)` in the two Triton IRs, `!dbg` in LLVM IR, `.loc` in PTX and GCN
assembly, and the line of PTX in a disassembly. A location is a chain, innermost first: the line inside a helper
function, then the line that called the helper.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Place = tuple[str, int]
"""A file and a line in it, from 1."""

Located = tuple[str, tuple[Place, ...]]
"""A line of a stage, cleared of what only a debugger reads, and the chain of places that it came from."""


@dataclass(frozen=True)
class Kind:
    """Something that a line of a stage does, however the stage writes it."""

    name: str
    plural: str
    pattern: re.Pattern[str]


def _kind(name: str, plural: str, *spellings: str) -> Kind:
    return Kind(name, plural, re.compile("|".join(spellings)))


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind(
            "load",
            "loads from global memory",
            r"\btt\.load\b|\btt\.descriptor_load\b|\bamdg\.buffer_load\b",
            r"\bld\.(?:\w+\.)*global\b|\bLDG\b",
            r"= load .*addrspace\(1\)|@llvm\.amdgcn\.\w+\.(?:ptr\.)?buffer\.load|\b(?:global|buffer|flat)_load_(?!lds)\w+(?!.* lds$)",
        ),
        _kind(
            "store",
            "stores to global memory",
            r"\btt\.store\b|\btt\.descriptor_store\b|\bamdg\.buffer_store\b",
            r"\bst\.(?:\w+\.)*global\b|\bSTG\b",
            r"\bstore .*addrspace\(1\)|@llvm\.amdgcn\.\w+\.(?:ptr\.)?buffer\.store|\b(?:global|buffer|flat)_store_\w+",
        ),
        _kind(
            "copy",
            "asynchronous copies",
            r"\bttg\.async_copy_global_to_local\b|\bttng\.async_tma_(?:copy|store|gather|scatter|reduce)\w*",
            r"\bcp\.async\.(?!commit|wait|bulk\.commit|bulk\.wait)|\bcp\.reduce\.async\b",
            r"\bLDGSTS\b|\bUTMALDG\b|\bUTMASTG\b|\bUBLKCP\b",
            r"\bamdg\.(?:buffer_load|async_tdm_copy)\w*to_local\b|\b(?:global|buffer)_load_\w*lds\w*|\bbuffer_load.* lds$",
        ),
        _kind(
            "tensor",
            "tensor-core instructions",
            r"\btt\.dot(?:_scaled)?\b|\bttng\.warp_group_dot\b|\bttng\.tc_gen5_mma\w*",
            r"\bwgmma\.mma_async\b|\bmma\.sync\b|\btcgen05\.mma\b",
            r"\b(?:H|I|D|B|Q|O)G?MMA\b|\bUTC\w*MMA\b",
            r"\bv_(?:s?mfma|smfmac|s?wmmac?)_\w+|@llvm\.amdgcn\.(?:mfma|wmma)|@llvm\.nvvm\.\w*mma\w*\.mma",
        ),
        _kind(
            "shared",
            "accesses to shared memory",
            r"\bttg\.local_(?:alloc|load|store)\b",
            r"\b(?:ld|st)\.(?:\w+\.)*shared\b|\b(?:ld|st)matrix\b",
            r"\b(?:LDS|STS|LDSM|STSM)\b",
            r"\bds_(?:read|write|load|store)\w*|\b(?:load|store) .*addrspace\(3\)",
        ),
        _kind(
            "atomic",
            "atomic operations",
            r"\btt\.atomic_\w+|\b(?:atom|red)\.\w+|\b(?:ATOM|ATOMG|ATOMS|RED|REDG)\b|\batomicrmw\b|_atomic_",
        ),
        _kind(
            "math",
            "operations on floating-point numbers",
            r"\barith\.(?:add|sub|mul|div|max|min|maximum|minimum|maxnum|minnum|neg)f\b|\bmath\.\w+",
            r"\b(?:add|sub|mul|fma|div|max|min|neg|abs|sqrt|rsqrt|rcp|ex2|lg2|sin|cos|tanh)\.(?:[\w:]+\.)*(?:bf|f)(?:16|32|64)(?:x2)?\b",
            r"= (?:tail call )?(?:contract |fast )*(?:fadd|fsub|fmul|fdiv|fneg)\b|@llvm\.(?:fma|exp2|sqrt|maxnum|minnum)\.|@llvm\.nvvm\.(?:fma|ex2)",
            r"\b(?:FADD|FMUL|FFMA|FMNMX3?|MUFU|HADD2|HMUL2|HFMA2|DADD|DMUL|DFMA)\b",
            r"\bv_(?:pk_)?(?:add|sub|mul|fma|fmac|max|min|exp|rcp|sqrt|log)_(?:bf|f)(?:16|32|64)\w*",
        ),
        _kind(
            "barrier",
            "barriers",
            r"\bgpu\.barrier\b|\bttg\.barrier\b|\bbar(?:rier)?\.(?:cta\.)?sync\b|\bBAR\.\w+|\bs_barrier\w*"
            r"|@llvm\.nvvm\.barrier\w*|@llvm\.amdgcn\.s\.barrier",
        ),
    )
}
"""What lines can be asked for, in the order in which a line that does two things is counted."""


def kind_of(text: str) -> str:
    """Return the kind of a line, `""` for those that are of none."""
    return next((name for name, kind in KINDS.items() if kind.pattern.search(text)), "")


def width(text: str) -> int | None:
    """Return how many bits a global load or store, or an asynchronous copy, moves for one thread; None if unknown."""
    for pattern, bits in _WIDTHS:
        if found := pattern.search(text):
            return bits(*found.groups(default=""))
    return None


_AMD_SIZES = {"byte": 8, "ubyte": 8, "sbyte": 8, "short": 16, "ushort": 16, "sshort": 16, "dword": 32}
_WIDTHS: list[tuple[re.Pattern[str], Callable[..., int]]] = [
    (
        re.compile(
            r"\b(?:ld|st)\.(?:[\w:]+\.)*?global(?:\.[\w:]+?)*?(?:\.v(\d))?\.(?:bf|[bufs])(\d+)(x2)?\b"
        ),
        lambda many, bits, pair: int(many or 1) * int(bits) * (2 if pair else 1),
    ),
    (re.compile(r"\bcp\.async\.c[ag]\..*?\], (0x[0-9a-f]+|\d+)"), lambda size: 8 * int(size, 0)),
    (re.compile(r"\b(?:LDG|STG|LDGSTS)\b(?:\.\w+)*?\.(\d+)\b"), int),
    (re.compile(r"\b(?:LDG|STG)\b(?:\.\w+)*?\.[US](8|16)\b"), int),
    (re.compile(r"\b(?:LDG|STG|LDGSTS)\b"), lambda: 32),
    (
        re.compile(
            r"\b(?:global|buffer|flat)_(?:load|store)_(?:lds_)?(u?byte|sbyte|[us]?short|dword)(?:x(\d))?"
        ),
        lambda name, many: _AMD_SIZES[name] * int(many or 1),
    ),
    (re.compile(r"\b(?:global|buffer|flat)_(?:load|store)_(?:d16_)?(?:hi_)?[bui](\d+)\b"), int),
]


def instruction(text: str) -> str:
    """Return the operation of a line of PTX, SASS or GCN assembly; `""` for a label, a directive or a bracket."""
    found = re.match(r"\s*(?:@!?%?\w+\s+)?([A-Za-z][\w.:]*)", text)
    return "" if found is None or text.endswith(":") else found[1]


# --- Triton IR and TritonGPU IR --------------------------------------------------------------------------------------


def read_mlir(text: str) -> list[Located]:
    """Read TTIR or TTGIR."""
    table = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    lines: list[Located] = []
    for line in text.splitlines():
        if line.startswith("#loc") or not line.strip():
            continue
        clean, locations = _without_locations(line)
        # A closing bracket has the location of what it closes: a link from it would say nothing.
        chain = _mlir_chain(locations[-1], table) if locations and clean.strip() not in {"}", "})"} else ()
        lines.append((clean, chain))
    return lines


def _without_locations(line: str) -> tuple[str, list[str]]:
    """Split a line of MLIR into its text and the contents of each `loc(...)` in it."""
    kept, found, position = [], [], 0
    while (start := line.find(" loc(", position)) >= 0:
        kept.append(line[position:start])
        end, depth = start + len(" loc("), 1
        while depth and end < len(line):
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        found.append(line[start + len(" loc(") : end - 1])
        position = end
    return "".join([*kept, line[position:]]), found


def _mlir_chain(location: str, table: dict[str, str]) -> tuple[Place, ...]:
    chain: list[Place] = []
    for file, line, name in re.findall(r'"([^"]*)":(\d+):\d+|(#loc\d*)', location):
        chain += _mlir_chain(table.get(name, ""), table) if name else [(file, int(line))]
    return tuple(dict.fromkeys(chain))


# --- LLVM IR ---------------------------------------------------------------------------------------------------------

_LLVM_NOISE = (
    "; ModuleID",
    "source_filename",
    "target ",
    "declare ",
    "attributes #",
    "; Function Attrs",
    "!",
)


def read_llvm(text: str) -> list[Located]:
    """Read LLVM IR. Assembly inside it is unfolded to one instruction a line, so that it can be read."""
    chain_of = _llvm_chains(text)
    lines: list[Located] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith(_LLVM_NOISE):
            continue
        location = re.search(r",? !dbg !(\d+)", line)
        chain = chain_of(location[1]) if location else ()
        clean = re.sub(
            r",? !(?:dbg|srcloc|noundef|range|alias\.scope|noalias|amdgpu\.\w+|llvm\.\w+) !\d+", "", line
        )
        head, *rest = re.sub(r"\s+; preds = .*", "", clean).replace(r"\09", "").split(r"\0A")
        lines += [(part, chain) for part in (head, *(f"      {asm.strip()}" for asm in rest))]
    return lines


def _llvm_chains(text: str) -> Callable[[str], tuple[Place, ...]]:
    nodes = dict(re.findall(r"^!(\d+) = (?:distinct )?(!DI\w+\(.*\))$", text, re.MULTILINE))

    def field(node: str, name: str) -> str:
        found = re.search(rf'\b{name}: !?"?([^",)]+)', nodes.get(node, ""))
        return found[1] if found else ""

    def file(scope: str) -> str:
        while scope and not field(scope, "file"):
            scope = field(scope, "scope")
        return field(field(scope, "file"), "filename")

    def chain(node: str) -> tuple[Place, ...]:
        places: list[Place] = []
        while node:
            scope = field(node, "scope") if "DILocation" in nodes.get(node, "") else node
            places.append((file(scope), int(field(node, "line") or 0)))
            node = field(node, "inlinedAt")
        return tuple(place for place in places if place[1])

    return chain


# --- assembly --------------------------------------------------------------------------------------------------------


def _assembly_chain(line: str, files: dict[str, str]) -> tuple[Place, ...]:
    """Return the chain of a `.loc` directive, from the comment that names its callers or from the directive alone."""
    comment = re.findall(r"([^\s@\[\]]+):(\d+):\d+", line)
    if comment:
        return tuple((file, int(number)) for file, number in comment if int(number))
    found = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", line)
    assert found is not None
    return ((files.get(found[1], ""), int(found[2])),) if int(found[2]) else ()


def _with_chains(text: str) -> Iterator[Located]:
    """Go through PTX or GCN assembly line by line, directives included, each with the location in force there."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"', text, re.MULTILINE))
    chain: tuple[Place, ...] = ()
    for line in text.splitlines():
        if line.lstrip().startswith(".loc"):
            chain = _assembly_chain(line, files)
        yield line, chain


_PTX_NOISE = re.compile(r"\s*(?:\.loc\b|\.file\b|\$L__(?:tmp|func_)\w+:|//|\s*$)")
_GCN_NOISE = re.compile(
    r"\s*(?:\.(?:loc|file|cfi_\w+|p2align|type|globl|text|size|set|amdgcn_target|amdhsa_\w+)\b|\.L(?:tmp|func_)\w+:|;|\s*$)"
)


def read_ptx(text: str) -> list[Located]:
    """Read PTX."""
    lines: list[Located] = []
    for line, chain in _with_chains(text):
        if re.match(r"\s*\.section\s+\.debug", line):
            break
        if not _PTX_NOISE.match(line):
            lines.append((_tidy(line, "//"), chain if instruction(line) else ()))
    return lines


def read_gcn(text: str) -> list[Located]:
    """Read AMD's assembly, up to the end of the program."""
    lines: list[Located] = []
    for line, chain in _with_chains(text):
        if re.match(r"\s*\.section\s+\.rodata", line):
            break
        if not _GCN_NOISE.match(line):
            lines.append((_tidy(line, ";"), chain if instruction(line) else ()))
    return lines


def _tidy(line: str, comment: str) -> str:
    """Drop the trailing comment; one tab becomes four columns before the instruction and one space after it."""
    code = line.split(f" {comment}")[0].rstrip()
    body = code.lstrip("\t")
    return "    " * (len(code) - len(body)) + re.sub(r"\s+", " ", body)


def read_sass(text: str, ptx: str) -> list[Located]:
    """Read a disassembly whose runs of instructions name the line of PTX that they came from."""
    chains = [chain for _, chain in _with_chains(ptx)]
    lines: list[Located] = []
    chain: tuple[Place, ...] = ()
    for line in text.splitlines():
        if found := re.match(r'\s*//## File "\.nv_debug_ptx_txt", line (\d+)', line):
            chain = chains[int(found[1]) - 1] if int(found[1]) <= len(chains) else ()
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\d+\s+)?(.*?)\s*(?:\s[&?]\w.*)?;", line):
            lines.append((f"    {(found[1] or '').strip():6}{found[2]};", chain))
        elif re.match(r"\.L_x_\d+:", line):
            lines.append((line.strip(), ()))
    return _without_padding(lines)


def _without_padding(lines: list[Located]) -> list[Located]:
    """Cut what follows the last exit: a branch to itself and NOPs that fill the instruction cache's line."""
    while lines and re.search(r"\bNOP\b|\.L_x_\d+:|BRA `\(\.L_x_\d+\)", lines[-1][0]):
        lines.pop()
    return lines
