export const guides = [
  {
    text: 'Guides',
    items: [
      { text: 'Quick start', link: '/guides/quickstart' },
      { text: 'Retries', link: '/guides/retries' },
      { text: 'Security', link: '/guides/security' },
      { text: 'Workers', link: '/guides/workers' },
    ],
  },
]
