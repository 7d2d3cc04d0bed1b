import './style.css'

const late = await import('./late.js')
const response = await fetch('/data.json')
const before = localStorage.getItem('seen')
localStorage.setItem('seen', location.host)
await cookieStore.set('seen', 'yes')

const state = {
  data: await response.json(),
  late: late.word,
  path: location.pathname,
  before,
  worker: await navigator.serviceWorker.register('/sw.js').then(
    () => 'registered',
    (error) => error.name,
  ),
}
document.querySelector('#state').textContent = JSON.stringify(state)
document.body.dataset.ready = 'yes'
