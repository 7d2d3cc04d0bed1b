self.addEventListener('fetch', (event) => event.respondWith(new Response('from the worker')))
