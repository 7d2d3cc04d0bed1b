/**
 * The system calls that builds may not use: those for resources that namespaces do not isolate (keyrings, the kernel's log, file handles), and
 * those that most attacks on kernels use (bpf, io_uring, userfaultfd, perf, the memory of other processes).
 */
const denied = {
  x64: {
    audit: 0xc000003e,
    socket: 41,
    // ptrace, syslog, add_key, request_key, keyctl, perf_event_open, open_by_handle_at, process_vm_readv and _writev, bpf,
    // userfaultfd, the three of io_uring
    calls: [101, 103, 248, 249, 250, 298, 304, 310, 311, 321, 323, 425, 426, 427],
  },
  arm64: {
    audit: 0xc00000b7,
    socket: 198,
    calls: [117, 116, 217, 218, 219, 241, 265, 270, 271, 280, 282, 425, 426, 427],
  },
} as const

/** x86-64 has a second table of calls from here on; no other processor has numbers as high. */
const secondTable = 0x40000000
const notPermitted = 1
const noSuchCall = 38
const noSuchFamily = 97
/** AF_UNIX, AF_INET, AF_INET6: what they reach is divided by the namespaces. AF_VSOCK, to the host of a virtual machine, is not. */
const families = [1, 2, 10]
/** The only allowed protocol of AF_NETLINK, with which Node lists its interfaces. */
const netlink = 16
const netlinkRoute = 0

/** One instruction of classic BPF (`linux/filter.h`): code, how many to skip when true and when false, value. */
type Instruction = readonly [code: number, whenTrue: number, whenFalse: number, value: number]
const load = (offset: number): Instruction => [0x20, 0, 0, offset]
const answer = (action: number): Instruction => [0x06, 0, 0, action]
const allow = answer(0x7fff0000)
const fail = (errno: number) => answer(0x00050000 | errno)
const when = (value: number, then: Instruction): Instruction[] => [[0x15, 0, 1, value], then]
const whenFrom = (value: number, then: Instruction): Instruction[] => [[0x35, 0, 1, value], then]
const unless = (value: number, then: Instruction): Instruction[] => [[0x15, 1, 0, value], then]

/** Offsets in `struct seccomp_data`; of an argument the lower half, which is all that the kernel looks at here. */
const callNumber = load(0)
const architecture = load(4)
const argument = (index: number) => load(16 + 8 * index)

/** A filter of system calls as bubblewrap reads it; undefined for a processor whose numbers we do not know. */
export function systemCallFilter(arch: string): Buffer | undefined {
  if (arch !== 'x64' && arch !== 'arm64') return undefined
  const { audit, socket, calls } = denied[arch]
  const program = [
    architecture,
    // 32-bit programs, whose calls have other numbers
    ...unless(audit, fail(noSuchCall)),
    callNumber,
    ...whenFrom(secondTable, fail(noSuchCall)),
    ...calls.flatMap((call) => when(call, fail(notPermitted))),
    ...unless(socket, allow),
    argument(0),
    ...families.flatMap((family) => when(family, allow)),
    ...unless(netlink, fail(noSuchFamily)),
    argument(2),
    ...when(netlinkRoute, allow),
    fail(noSuchFamily),
  ]
  return Buffer.concat(program.map(encode))
}

function encode([code, whenTrue, whenFalse, value]: Instruction): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt16LE(code, 0)
  bytes.writeUInt8(whenTrue, 2)
  bytes.writeUInt8(whenFalse, 3)
  bytes.writeUInt32LE(value >>> 0, 4)
  return bytes
}
