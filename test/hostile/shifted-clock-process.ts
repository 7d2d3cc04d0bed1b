// Imported before everything else, this moves the clock of a process and of its threads by SHIFT_MS.

const RealDate = Date
const shiftMs = Number(process.env['SHIFT_MS'])
const now = () => RealDate.now() + shiftMs

globalThis.Date = new Proxy(RealDate, {
  construct: (target, args: unknown[], newTarget) =>
    Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
  get: (target, name, receiver) => (name === 'now' ? now : (Reflect.get(target, name, receiver) as unknown)),
})
